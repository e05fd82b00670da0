// Package openapi reads fedpost's API description and holds requests and
// answers against it, so that the tests of every package that serves a route
// can show that description and handlers agree.
//
// A library checks the schemas. This package finds the operation that a request
// is for, and refuses a description with a method or keyword that nothing checks.
//
// A package that serves routes hands each exchange of its tests on to the description, in the
// one helper through which all of them go:
//
//	op := description.Find(method, path)
//	if err := op.CheckAnswer(res.Status, res.Header.Get("Content-Type"), body); err != nil {
//		t.Errorf("%s %s: %v", method, path, err)
//	}
//	if res.Status < 300 {
//		if err := op.CheckRequest(contentType, sent); err != nil {
//			t.Errorf("%s %s is accepted, but not described so: %v", method, path, err)
//		}
//	}
package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"
)

// Document is an API description.
type Document struct {
	root       map[string]any
	compiling  sync.Mutex // the compiler is not safe for concurrent use
	schemas    *jsonschema.Compiler
	operations []*Operation
}

// Operation is one method of one path.
type Operation struct {
	Method, Path string
	doc          *Document
	at           string // as a JSON pointer
	node         map[string]any
}

// methods are the methods that a path item may have.
var methods = []string{"get", "put", "post", "delete", "patch"}

// Load reads a description in YAML.
func Load(file string) (*Document, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	d := &Document{}
	if err := yaml.Unmarshal(text, &d.root); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if v, _ := d.root["openapi"].(string); !strings.HasPrefix(v, "3.1.") {
		return nil, fmt.Errorf("%s: openapi is %q, not 3.1", file, v)
	}
	if err := misspeltAnywhere(d.root); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if d.schemas, err = compiler(d.root); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for path, item := range object(d.root["paths"]) {
		for method, node := range object(item) {
			if method == "parameters" {
				continue
			}
			if !slices.Contains(methods, method) {
				return nil, fmt.Errorf("%s: %s: %q is not checked", file, path, method)
			}
			d.operations = append(d.operations, &Operation{strings.ToUpper(method), path, d, pointerTo("", "paths", path, method), object(node)})
		}
	}
	slices.SortFunc(d.operations, func(a, b *Operation) int {
		return strings.Compare(a.Path+" "+a.Method, b.Path+" "+b.Method)
	})
	return d, nil
}

// Operations lists all operations by path.
func (d *Document) Operations() []*Operation { return d.operations }

// Find returns the operation that serves a request, nil if none: path is
// escaped, as on the wire. A path without parameters wins over one with, whatever their
// methods.
func (d *Document) Find(method, path string) *Operation {
	var found *Operation
	best := ""
	for _, o := range d.operations {
		switch {
		case !o.matches(path):
			continue
		case best == "" || strings.Count(o.Path, "{") < strings.Count(best, "{"):
			best, found = o.Path, nil
		}
		if o.Path == best && o.Method == method {
			found = o
		}
	}
	return found
}

func (o *Operation) matches(path string) bool {
	want, got := strings.Split(o.Path, "/"), strings.Split(path, "/")
	return slices.EqualFunc(want, got, func(w, g string) bool {
		return w == g || strings.HasPrefix(w, "{") && g != ""
	})
}

// String is the operation as http.ServeMux writes it.
func (o *Operation) String() string { return o.Method + " " + o.Path }

// Public reports whether the operation needs no authentication.
func (o *Operation) Public() bool {
	security, set := o.node["security"].([]any)
	return set && len(security) == 0
}

// Examples returns the documented bodies of requests, by name.
func (o *Operation) Examples() (map[string]json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	for _, content := range object(o.request()["content"]) {
		for name, example := range object(object(content)["examples"]) {
			value, err := json.Marshal(object(o.doc.deref(example))["value"])
			if err != nil {
				return nil, fmt.Errorf("%s: example %s: %w", o, name, err)
			}
			all[name] = value
		}
	}
	return all, nil
}

func (o *Operation) request() map[string]any { return object(o.doc.deref(o.node["requestBody"])) }

// CheckRequest reports how a request's body differs from the description.
func (o *Operation) CheckRequest(contentType string, body []byte) error {
	request := o.request()
	if len(body) == 0 {
		if request["required"] == true {
			return fmt.Errorf("%s: a body is required", o)
		}
		return nil
	}
	at := o.doc.target(o.node["requestBody"], o.at+"/requestBody")
	if err := o.checkContent(object(request["content"]), at, contentType, body); err != nil {
		return fmt.Errorf("request: %w", err)
	}
	return nil
}

// CheckAnswer reports how an answer differs from the description.
func (o *Operation) CheckAnswer(status int, contentType string, body []byte) error {
	node, ok := object(o.node["responses"])[strconv.Itoa(status)]
	if !ok {
		return fmt.Errorf("%s: answer %d is not described", o, status)
	}
	content := object(object(o.doc.deref(node))["content"])
	if len(content) == 0 && len(body) == 0 {
		return nil
	}
	at := o.doc.target(node, pointerTo(o.at, "responses", strconv.Itoa(status)))
	if err := o.checkContent(content, at, contentType, body); err != nil {
		return fmt.Errorf("answer %d: %w", status, err)
	}
	return nil
}

// CheckExamples holds the documented answers against their schemas.
func (o *Operation) CheckExamples() error {
	for status, node := range object(o.node["responses"]) {
		for mediaType, content := range object(object(o.doc.deref(node))["content"]) {
			for name, example := range object(object(content)["examples"]) {
				v := normal(object(o.doc.deref(example))["value"])
				at := o.doc.target(node, pointerTo(o.at, "responses", status))
				if err := o.doc.check(pointerTo(at, "content", mediaType, "schema"), v); err != nil {
					return fmt.Errorf("%s: %s %s: example %s: %w", o, status, mediaType, name, err)
				}
			}
		}
	}
	return nil
}

// checkContent holds a body against the content of the request or answer at a
// JSON pointer.
func (o *Operation) checkContent(content map[string]any, at, contentType string, body []byte) error {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return fmt.Errorf("%s: Content-Type %q: %w", o, contentType, err)
	}
	if _, ok := content[mediaType]; !ok {
		return fmt.Errorf("%s: Content-Type %q is not described", o, mediaType)
	}
	v, err := decode(body)
	if err != nil {
		return fmt.Errorf("%s: %w", o, err)
	}
	if err := o.doc.check(pointerTo(at, "content", mediaType, "schema"), v); err != nil {
		return fmt.Errorf("%s: %w", o, err)
	}
	return nil
}

// object returns v as a map; the map is empty if v is not a map.
func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// deref follows a reference within the document.
func (d *Document) deref(v any) any {
	for {
		ref, ok := object(v)["$ref"].(string)
		if !ok {
			return v
		}
		v = any(d.root)
		for _, step := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
			v = object(v)[step]
		}
		if v == nil {
			panic("openapi: nothing is at " + ref)
		}
	}
}

// target returns the JSON pointer to v: the reference in v, or the pointer at if v is
// not a reference.
func (d *Document) target(v any, at string) string {
	if ref, ok := object(v)["$ref"].(string); ok {
		return strings.TrimPrefix(ref, "#")
	}
	return at
}

// normal turns a value decoded from YAML into the types that JSON decodes to.
func normal(v any) any {
	b, err := json.Marshal(v)
	if err != nil {
		panic("openapi: " + err.Error())
	}
	out, err := decode(b)
	if err != nil {
		panic("openapi: " + err.Error())
	}
	return out
}

// decode keeps numbers as written, because an activity may hold a number that no Go type
// holds.
func decode(text []byte) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	err = dec.Decode(&v)
	return v, err
}
