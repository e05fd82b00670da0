package activity

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
)

// FuzzMembersAreThoseOfTheDecoder: names and values are those of encoding/json's decoder, in
// the same order, for any valid JSON.
func FuzzMembersAreThoseOfTheDecoder(f *testing.F) {
	for _, text := range []string{
		`{}`, ` { } `, `[]`, `"x"`, `1`, `null`, "\n{\"a\" :\t1 , \"b\":[ ]}\r\n", `{"a":1}`, `{"a":-1.5e+3,"b":true}`,
		`{"a":"\"","b":"\\","c":"\\\"","":"}"}`, `{"a\u0062":{"c":["{","]",{"d":null}]},"\\":"x","\ud800":1}`,
		`{"a":{"a":{}},"a":[[],[]]}`, "{\"\xff\":\"\xff\"}", `{"a":[1,2,{"b":"\\\\\""}], "c" : false }`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) {
			return
		}
		before := slices.Clone(text)
		var got []string
		is := Members(text, func(name string, value json.RawMessage) bool {
			got = append(got, name, string(value))
			return true
		})
		want, object := decoded(t, text)
		if is != object || !slices.Equal(got, want) || !bytes.Equal(text, before) {
			t.Errorf("of %q: %t %q, want %t %q", text, is, got, object, want)
		}
		var first []string
		if Members(text, func(name string, value json.RawMessage) bool {
			first = append(first, name, string(value))
			return false
		}); !slices.Equal(first, want[:min(2, len(want))]) {
			t.Errorf("of %q, stopped at the first: %q", text, first)
		}
	})
}

func decoded(t *testing.T, text []byte) (all []string, object bool) {
	dec := json.NewDecoder(bytes.NewReader(text))
	if first, err := dec.Token(); err != nil || first != json.Delim('{') {
		return nil, false
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			t.Fatal(err)
		}
		all = append(all, name.(string), string(value))
	}
	return all, true
}

var benchActivity = []byte(`{"@context":"https://www.w3.org/ns/activitystreams","id":"https://bench.example/1","type":"Create","actor":"https://bench.example/users/zoe","object":{"id":"https://bench.example/o/1","type":"Note","content":"` +
	string(bytes.Repeat([]byte("<p>words and \\\"quotes\\\"</p>"), 48)) + `","tag":[{"type":"Mention","href":"https://a.example"}]}}`)

func BenchmarkMembers(b *testing.B) {
	for b.Loop() {
		if !json.Valid(benchActivity) || !Members(benchActivity, func(string, json.RawMessage) bool { return true }) {
			b.Fatal("no object")
		}
	}
}
