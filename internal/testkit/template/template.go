// Package template reads the transformed template.yaml for tests: what the stack says of
// queues, functions and permissions, so that it can be held against the code.
//
// A template is configuration that no compiler checks, and its mistakes show
// in production: a variable that is spelt differently, a visibility timeout
// that a longer function outlives, a permission that is missing on a path
// taken once a month. All of it can be known before.
//
// A new test loads the template, asks it, and names what it asked of:
//
//	func TestEveryFunctionIsTraced(t *testing.T) {
//		tmpl := load(t)
//		for id := range functions {
//			if tmpl.Resources[id].Properties["TracingConfig"] == nil {
//				t.Errorf("%s has no TracingConfig", id)
//			}
//		}
//	}
//
// After a change to template.yaml, `make transform` writes testdata/transformed.json.
package template

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the transformed template
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Intrinsic is a CloudFormation function and its argument, such as
// Intrinsic{"Ref", "Table"}. Ref and GetAtt keep their argument as a string.
type Intrinsic struct {
	Name string
	Arg  any
}

// Map is a mapping of the template.
type Map = map[string]any

// Template is a template after the SAM transform: what CloudFormation gets.
type Template struct {
	Metadata   Map
	Parameters Map
	Conditions Map
	Resources  map[string]Resource
	Outputs    Map
}

// Resource is one resource.
type Resource struct {
	Type           string
	Condition      string
	DeletionPolicy string
	// UpdateReplacePolicy is what becomes of it when an update replaces it.
	UpdateReplacePolicy string

	Metadata   Map
	Properties Map
}

//go:embed testdata/transformed.json
var transformed []byte

// Load reads the transformed template. It fails if template.yaml, whose path is
// given, has changed since it was transformed.
func Load(path string) (*Template, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read template: %w", err)
	}
	t, err := parse(transformed)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(source); t.Metadata["Source"] != hex.EncodeToString(sum[:]) {
		return nil, fmt.Errorf("%s has changed since it was transformed: run make transform", path)
	}
	return t, nil
}

func parse(text []byte) (*Template, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var root Map
	if err := d.Decode(&root); err != nil {
		return nil, fmt.Errorf("read the transformed template: %w", err)
	}
	root, _ = value(root).(Map)
	t := &Template{
		Metadata: mapping(root["Metadata"]), Parameters: mapping(root["Parameters"]),
		Conditions: mapping(root["Conditions"]), Outputs: mapping(root["Outputs"]), Resources: map[string]Resource{},
	}
	for name, r := range mapping(root["Resources"]) {
		m := mapping(r)
		t.Resources[name] = Resource{
			Type: text1(m["Type"]), Condition: text1(m["Condition"]), DeletionPolicy: text1(m["DeletionPolicy"]), UpdateReplacePolicy: text1(m["UpdateReplacePolicy"]),
			Metadata: mapping(m["Metadata"]), Properties: mapping(m["Properties"]),
		}
	}
	return t, nil
}

func text1(v any) string { s, _ := v.(string); return s }
func mapping(v any) Map  { m, _ := v.(Map); return m }

// value turns what JSON decodes to into strings, ints, booleans, Maps, slices
// and Intrinsics.
func value(v any) any {
	switch v := v.(type) {
	case Map:
		if len(v) == 1 {
			for name, arg := range v {
				if name == "Ref" || name == "Condition" {
					return Intrinsic{name, arg}
				}
				if function, ok := strings.CutPrefix(name, "Fn::"); ok {
					return Intrinsic{function, argument(function, value(arg))}
				}
			}
		}
		for name, e := range v {
			v[name] = value(e)
		}
		return v
	case []any:
		for i, e := range v {
			v[i] = value(e)
		}
		return v
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return int(n)
		}
		return v.String()
	}
	return v
}

// argument writes GetAtt's two names as one, as they are in YAML.
func argument(function string, arg any) any {
	names, _ := arg.([]any)
	if function != "GetAtt" || len(names) != 2 {
		return arg
	}
	return text1(names[0]) + "." + text1(names[1])
}

// Default returns a parameter's default.
func (t *Template) Default(parameter string) any {
	return mapping(t.Parameters[parameter])["Default"]
}
