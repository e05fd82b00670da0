package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// keyword checks one keyword of a schema.
type keyword func(d *Document, at string, v, rule any, schema map[string]any) error

// silent keywords describe and do not restrict.
var silent = []string{"description", "title", "default", "examples", "example", "deprecated", "contentMediaType"}

var keywords map[string]keyword

func init() {
	// A variable of its own would refer to itself.
	keywords = map[string]keyword{
		"$ref":                 checkRef,
		"type":                 checkType,
		"enum":                 checkEnum,
		"const":                checkConst,
		"properties":           checkProperties,
		"required":             checkRequired,
		"additionalProperties": checkAdditional,
		"propertyNames":        checkNames,
		"items":                checkItems,
		"minItems":             least(entries),
		"maxItems":             most(entries),
		"minLength":            least(characters),
		"maxLength":            most(characters),
		"minimum":              least(number),
		"maximum":              most(number),
		"pattern":              checkPattern,
		"format":               checkFormat,
		"oneOf":                checkOneOf,
		"anyOf":                checkAnyOf,
		"allOf":                checkAllOf,
	}
}

// check reports how v differs from a schema.
func (d *Document) check(at string, v, schema any) error {
	s := object(schema)
	if s == nil {
		return fmt.Errorf("%s: no schema", place(at))
	}
	for _, name := range slices.Sorted(maps.Keys(s)) {
		rule := s[name]
		if slices.Contains(silent, name) {
			continue
		}
		k, ok := keywords[name]
		if !ok {
			return fmt.Errorf("%s: keyword %q is not checked", place(at), name)
		}
		if err := k(d, at, v, rule, s); err != nil {
			return err
		}
	}
	return nil
}

func place(at string) string {
	if at == "" {
		return "#"
	}
	return "#" + at
}

func differs(at, format string, args ...any) error {
	return errors.New(place(at) + ": " + fmt.Sprintf(format, args...))
}

func checkRef(d *Document, at string, v, _ any, s map[string]any) error {
	return d.check(at, v, d.deref(s))
}

func checkType(_ *Document, at string, v, rule any, _ map[string]any) error {
	names, several := rule.([]any)
	if !several {
		names = []any{rule}
	}
	if !slices.ContainsFunc(names, func(n any) bool { return isType(v, n) }) {
		return differs(at, "%T is not of type %v", v, rule)
	}
	return nil
}

func isType(v, name any) bool {
	switch t := v.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string"
	case json.Number:
		_, err := t.Int64()
		return name == "number" || name == "integer" && err == nil
	case []any:
		return name == "array"
	case map[string]any:
		return name == "object"
	}
	return false
}

func checkEnum(_ *Document, at string, v, rule any, _ map[string]any) error {
	list, _ := normal(rule).([]any)
	if !slices.ContainsFunc(list, func(e any) bool { return reflect.DeepEqual(e, v) }) {
		return differs(at, "%v is none of %v", v, list)
	}
	return nil
}

func checkConst(_ *Document, at string, v, rule any, _ map[string]any) error {
	if !reflect.DeepEqual(normal(rule), v) {
		return differs(at, "%v is not %v", v, rule)
	}
	return nil
}

func checkProperties(d *Document, at string, v, rule any, _ map[string]any) error {
	for name, value := range object(v) {
		if schema, ok := object(rule)[name]; ok {
			if err := d.check(at+"/"+name, value, schema); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkRequired(_ *Document, at string, v, rule any, _ map[string]any) error {
	o, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	list, _ := rule.([]any)
	for _, name := range list {
		if _, there := o[name.(string)]; !there {
			return differs(at, "%v is missing", name)
		}
	}
	return nil
}

func checkAdditional(d *Document, at string, v, rule any, s map[string]any) error {
	for name, value := range object(v) {
		if _, known := object(s["properties"])[name]; known {
			continue
		}
		if rule == false {
			return differs(at, "%s is not described", name)
		}
		if rule == true {
			continue
		}
		if err := d.check(at+"/"+name, value, rule); err != nil {
			return err
		}
	}
	return nil
}

func checkNames(d *Document, at string, v, rule any, _ map[string]any) error {
	for name := range object(v) {
		if err := d.check(at+"/"+name, name, rule); err != nil {
			return err
		}
	}
	return nil
}

func checkItems(d *Document, at string, v, rule any, _ map[string]any) error {
	list, _ := v.([]any)
	for i, e := range list {
		if err := d.check(at+"/"+strconv.Itoa(i), e, rule); err != nil {
			return err
		}
	}
	return nil
}

// A limit is about numbers, or about the length of one kind of thing.
func number(v any) (float64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	return f, err == nil
}

func characters(v any) (float64, bool) {
	s, ok := v.(string)
	return float64(utf8.RuneCountInString(s)), ok
}

func entries(v any) (float64, bool) {
	list, ok := v.([]any)
	return float64(len(list)), ok
}

func least(size func(any) (float64, bool)) keyword {
	return func(_ *Document, at string, v, rule any, _ map[string]any) error {
		limit, _ := number(normal(rule))
		if n, ok := size(v); ok && n < limit {
			return differs(at, "%v is less than %v", n, rule)
		}
		return nil
	}
}

func most(size func(any) (float64, bool)) keyword {
	return func(_ *Document, at string, v, rule any, _ map[string]any) error {
		limit, _ := number(normal(rule))
		if n, ok := size(v); ok && n > limit {
			return differs(at, "%v is more than %v", n, rule)
		}
		return nil
	}
}

func checkPattern(_ *Document, at string, v, rule any, _ map[string]any) error {
	s, ok := v.(string)
	if !ok {
		return nil
	}
	if !regexp.MustCompile(rule.(string)).MatchString(s) {
		return differs(at, "%q does not match %v", s, rule)
	}
	return nil
}

func checkFormat(_ *Document, at string, v, rule any, _ map[string]any) error {
	s, ok := v.(string)
	if !ok {
		return nil
	}
	switch rule {
	case "date-time":
		if _, err := time.Parse(time.RFC3339, s); err != nil {
			return differs(at, "%q is no date-time", s)
		}
		return nil
	case "uri", "uri-reference":
		return nil // the handlers know better
	}
	return differs(at, "format %v is not checked", rule)
}

func (d *Document) matching(at string, v, rule any) (n int, last error) {
	list, _ := rule.([]any)
	for _, schema := range list {
		if err := d.check(at, v, schema); err != nil {
			last = err
		} else {
			n++
		}
	}
	return n, last
}

func checkOneOf(d *Document, at string, v, rule any, _ map[string]any) error {
	if n, err := d.matching(at, v, rule); n != 1 {
		return errors.Join(differs(at, "matches %d of oneOf", n), err)
	}
	return nil
}

func checkAnyOf(d *Document, at string, v, rule any, _ map[string]any) error {
	if n, err := d.matching(at, v, rule); n == 0 {
		return errors.Join(differs(at, "matches none of anyOf"), err)
	}
	return nil
}

func checkAllOf(d *Document, at string, v, rule any, _ map[string]any) error {
	list, _ := rule.([]any)
	if n, err := d.matching(at, v, rule); n != len(list) {
		return err
	}
	return nil
}
