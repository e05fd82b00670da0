package openapi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const small = `
openapi: 3.1.0
paths:
  /a/{id}:
    put:
      requestBody:
        required: true
        content:
          application/json:
            schema: {$ref: "#/components/schemas/Thing"}
            examples: {one: {value: {name: x}}}
      responses:
        "200": {$ref: "#/components/responses/Thing"}
        "204": {description: nothing}
    delete: {responses: {"204": {description: nothing}}}
  /a/b:
    put: {security: [], responses: {"204": {description: nothing}}}
components:
  responses:
    Thing:
      content:
        application/json:
          schema: {$ref: "#/components/schemas/Thing"}
  schemas:
    Thing:
      type: object
      required: [name]
      additionalProperties: false
      properties:
        name: {type: string, pattern: "^[a-z]*$", minLength: 1, maxLength: 3}
        size: {type: [integer, "null"], minimum: 1, maximum: 10}
        any: {type: number}
        list: {type: array, minItems: 1, maxItems: 2, items: {enum: [a, 1, true]}}
        at: {type: string, format: date-time}
        fixed: {const: 7}
        either: {oneOf: [{type: string}, {type: string, minLength: 2}, {type: boolean}]}
        some: {anyOf: [{type: string}, {type: string, minLength: 2}]}
        all: {allOf: [{type: string}, {minLength: 2}]}
        one: {type: object, minProperties: 1, maxProperties: 1}
        map: {type: object, propertyNames: {maxLength: 1}, additionalProperties: {type: boolean}}
        free: {type: object}
`

func load(t *testing.T, text string) (*Document, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "openapi.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(file)
}

func must(t *testing.T) *Document {
	t.Helper()
	d, err := load(t, small)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestEveryKeywordRefusesWhatItDescribesAgainst(t *testing.T) {
	op := must(t).Find("PUT", "/a/x%2Fy")
	for body, says := range map[string]string{
		`{"name":"x"}`:                             "",
		`{}`:                                       "missing property 'name'",
		`[]`:                                       "got array, want object",
		`{"name":7}`:                               "got number, want string",
		`{"name":"X"}`:                             "/name",
		`{"name":""}`:                              "minLength",
		`{"name":"abcd"}`:                          "maxLength",
		`{"name":"x","other":1}`:                   "'other' not allowed",
		`{"name":"x","size":null}`:                 "",
		`{"name":"x","size":1.5}`:                  "got number, want",
		`{"name":"x","size":0}`:                    "minimum",
		`{"name":"x","size":11}`:                   "maximum",
		`{"name":"x","any":1e400}`:                 "",
		`{"name":"x","list":["a",1,true]}`:         "maxItems",
		`{"name":"x","list":[]}`:                   "minItems",
		`{"name":"x","list":["a",true]}`:           "",
		`{"name":"x","list":["b"]}`:                "/list/0",
		`{"name":"x","at":"2026-11-21T08:00:00Z"}`: "",
		`{"name":"x","at":"today"}`:                "date-time",
		`{"name":"x","fixed":7}`:                   "",
		`{"name":"x","fixed":8}`:                   "/fixed",
		`{"name":"x","either":"a"}`:                "",
		`{"name":"x","either":"ab"}`:               "oneOf",
		`{"name":"x","either":1}`:                  "oneOf",
		`{"name":"x","some":"ab"}`:                 "",
		`{"name":"x","some":1}`:                    "anyOf",
		`{"name":"x","all":"ab"}`:                  "",
		`{"name":"x","all":"a"}`:                   "minLength",
		`{"name":"x","one":{"a":1}}`:               "",
		`{"name":"x","one":{}}`:                    "minProperties",
		`{"name":"x","one":{"a":1,"b":2}}`:         "maxProperties",
		`{"name":"x","map":{"a":true}}`:            "",
		`{"name":"x","map":{"ab":true}}`:           "propertyName",
		`{"name":"x","map":{"a":1}}`:               "want boolean",
		`{"name":"x","free":{"a":[{}]}}`:           "",
	} {
		for what, err := range map[string]error{
			"request": op.CheckRequest("application/json; charset=utf-8", []byte(body)),
			"answer":  op.CheckAnswer(200, "application/json", []byte(body)),
		} {
			if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
				t.Errorf("%s %s: %v, want %q", what, body, err, says)
			}
		}
	}
}

func TestRequestsAndAnswersHaveToBeDescribed(t *testing.T) {
	op := must(t).Find("PUT", "/a/x")
	for what, err := range map[string]error{
		"no body":          op.CheckRequest("", nil),
		"another type":     op.CheckRequest("text/plain", []byte(`{"name":"x"}`)),
		"no JSON":          op.CheckRequest("application/json", []byte(`{`)),
		"another status":   op.CheckAnswer(201, "application/json", []byte(`{"name":"x"}`)),
		"unasked-for body": op.CheckAnswer(204, "application/json", []byte(`{"name":"x"}`)),
		"empty answer":     op.CheckAnswer(200, "application/json", nil),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if err := op.CheckAnswer(204, "", nil); err != nil {
		t.Error(err)
	}
}

func TestPathsWithoutParametersWin(t *testing.T) {
	d := must(t)
	if op := d.Find("PUT", "/a/b"); op.Path != "/a/b" || !op.Public() {
		t.Errorf("found %s", op)
	}
	if op := d.Find("PUT", "/a/c"); op.String() != "PUT /a/{id}" || op.Public() {
		t.Errorf("found %s", op)
	}
	for _, c := range [][2]string{{"GET", "/a/c"}, {"DELETE", "/a/b"}, {"PUT", "/a"}, {"PUT", "/a/"}, {"PUT", "/a/b/c"}} {
		if op := d.Find(c[0], c[1]); op != nil {
			t.Errorf("%s: found %s", c, op)
		}
	}
}

func TestExamplesAreChecked(t *testing.T) {
	for text, says := range map[string]string{
		"schema: {$ref: \"#/components/schemas/Thing\"}\n          examples: {x: {value: {name: x}}}": "",
		"schema: {$ref: \"#/components/schemas/Thing\"}\n          examples: {x: {value: {name: 1}}}": "example x",
	} {
		d, err := load(t, strings.Replace(small, "schema: {$ref: \"#/components/schemas/Thing\"}\n  schemas:", text+"\n  schemas:", 1))
		if err != nil {
			t.Fatal(err)
		}
		err = d.Find("PUT", "/a/x").CheckExamples()
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
}

func TestWhatIsNotCheckedIsRefused(t *testing.T) {
	if _, err := load(t, strings.Replace(small, "minLength: 1,", "minLenght: 1,", 1)); err == nil || !strings.Contains(err.Error(), "minLenght") {
		t.Errorf("misspelt keyword: %v", err)
	}
	for what, text := range map[string]string{
		"another version": strings.Replace(small, "3.1.0", "3.0.3", 1),
		"another method":  strings.Replace(small, "    put: {", "    putt: {", 1),
		"no YAML":         "\t",
	} {
		if _, err := load(t, text); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}
