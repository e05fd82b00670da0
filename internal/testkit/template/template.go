// Package template reads template.yaml for tests: what the stack says of
// queues, functions and permissions, so that it can be held against the code.
//
// A template is configuration that no compiler checks, and its mistakes show
// in production: a variable that is spelt differently, a visibility timeout
// that a longer function outlives, a permission that is missing on a path
// taken once a month. All of it can be known before.
package template

import (
	"fmt"
	"os"

	"gopkg.in/yaml.v3"
)

// Intrinsic is a CloudFormation function and its argument, such as
// Intrinsic{"Ref", "Table"}. Ref and GetAtt keep their argument as a string.
type Intrinsic struct {
	Name string
	Arg  any
}

// Map is a mapping of the template.
type Map = map[string]any

// Template is a template as written, before the SAM transform.
type Template struct {
	Globals    Map
	Parameters Map
	Resources  map[string]Resource
	Outputs    Map
}

// Resource is one resource.
type Resource struct {
	Type           string
	Condition      string
	DeletionPolicy string
	Metadata       Map
	Properties     Map
}

// Load reads the template at path.
func Load(path string) (*Template, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read template: %w", err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("read template: %w", err)
	}
	root, ok := value(doc.Content[0]).(Map)
	if !ok {
		return nil, fmt.Errorf("read template: %s is no mapping", path)
	}
	t := &Template{Resources: map[string]Resource{}}
	t.Globals, _ = root["Globals"].(Map)
	t.Parameters, _ = root["Parameters"].(Map)
	t.Outputs, _ = root["Outputs"].(Map)
	resources, _ := root["Resources"].(Map)
	for name, r := range resources {
		m, _ := r.(Map)
		t.Resources[name] = Resource{
			Type: text1(m["Type"]), Condition: text1(m["Condition"]), DeletionPolicy: text1(m["DeletionPolicy"]),
			Metadata: mapping(m["Metadata"]), Properties: mapping(m["Properties"]),
		}
	}
	return t, nil
}

func text1(v any) string { s, _ := v.(string); return s }
func mapping(v any) Map  { m, _ := v.(Map); return m }

// value turns a node into strings, ints, floats, booleans, Maps, slices and
// Intrinsics. Aliases and merges are not followed, as CloudFormation knows none.
func value(n *yaml.Node) any {
	if len(n.Tag) > 1 && n.Tag[0] == '!' && n.Tag[1] != '!' {
		plain := *n
		plain.Tag = ""
		if plain.Kind == yaml.ScalarNode {
			return Intrinsic{n.Tag[1:], n.Value}
		}
		return Intrinsic{n.Tag[1:], value(&plain)}
	}
	switch n.Kind {
	case yaml.MappingNode:
		m := Map{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			m[n.Content[i].Value] = value(n.Content[i+1])
		}
		return m
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, c := range n.Content {
			list = append(list, value(c))
		}
		return list
	}
	var v any
	if err := n.Decode(&v); err != nil {
		return n.Value
	}
	return v
}

// Default returns a parameter's default.
func (t *Template) Default(parameter string) any {
	return mapping(t.Parameters[parameter])["Default"]
}
