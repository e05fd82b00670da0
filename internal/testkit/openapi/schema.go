package openapi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// keywords are those that a schema of the description may have. JSON Schema
// ignores a keyword that it does not know, so a misspelt one would look checked.
var keywords = strings.Fields(`$ref type enum const properties required additionalProperties propertyNames minProperties maxProperties
	items minItems maxItems minLength maxLength minimum maximum pattern format oneOf anyOf allOf
	description title default examples example deprecated contentMediaType`)

// compiler returns a compiler of the schemas in root, which check formats too.
func compiler(root map[string]any) (*jsonschema.Compiler, error) {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	// The handlers check URLs by stricter rules than the format "uri".
	for _, name := range []string{"uri", "uri-reference"} {
		c.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(any) error { return nil }})
	}
	return c, c.AddResource(address, normal(root))
}

// address is where the compiler finds the description.
const address = "fedpost://openapi.yaml"

// check reports how v differs from the schema at a JSON pointer into the
// description.
func (d *Document) check(pointer string, v any) error {
	d.compiling.Lock()
	schema, err := d.schemas.Compile(address + "#" + pointer)
	d.compiling.Unlock()
	if err != nil {
		return fmt.Errorf("schema %s: %w", pointer, err)
	}
	return schema.Validate(v)
}

// pointerTo appends steps to a JSON pointer (RFC 6901), escaped for a URI.
func pointerTo(pointer string, steps ...string) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1", "%", "%25", "{", "%7B", "}", "%7D", " ", "%20", "+", "%2B")
	for _, s := range steps {
		pointer += "/" + escape.Replace(s)
	}
	return pointer
}

// misspelt returns an error for the first keyword, in any schema below v, that is not
// in keywords.
func misspelt(v any) error {
	s := object(v)
	for name, rule := range s {
		if !slices.Contains(keywords, name) {
			return fmt.Errorf("keyword %q of a schema is not known", name)
		}
		var below []any
		switch name {
		case "properties":
			for _, p := range object(rule) {
				below = append(below, p)
			}
		case "items", "propertyNames", "additionalProperties":
			below = []any{rule}
		case "oneOf", "anyOf", "allOf":
			below, _ = rule.([]any)
		}
		for _, b := range below {
			if err := misspelt(b); err != nil {
				return err
			}
		}
	}
	return nil
}

// misspeltAnywhere looks for schemas in all of a description.
func misspeltAnywhere(v any) error {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if err := misspeltAnywhere(e); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, e := range v {
			var err error
			switch name {
			case "schema":
				err = misspelt(e)
			case "schemas":
				for _, s := range object(e) {
					if err = misspelt(s); err != nil {
						break
					}
				}
			case "examples", "example":
			default:
				err = misspeltAnywhere(e)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}
