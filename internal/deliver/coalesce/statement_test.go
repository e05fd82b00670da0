package coalesce_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"fedpost/internal/deliver/coalesce"
	"fedpost/internal/testkit/property"
)

func TestReadFindsTheSubject(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       coalesce.Subject // zero: never redundant
		typ        string
	}{
		{"create", create, coalesce.Subject{Group: coalesce.Lifecycle, Object: "https://a/1"}, "create"},
		{"case", `{"type":"UPDATE","object":"https://a/1"}`, coalesce.Subject{Group: coalesce.Lifecycle, Object: "https://a/1"}, "update"},
		{"deletion", `{"@type":"Deletion","object":{"@id":"https://a/1"}}`, coalesce.Subject{Group: coalesce.Lifecycle, Object: "https://a/1"}, "deletion"},
		{"a target means nothing here", `{"type":"Delete","object":"https://a/1","target":"https://a/2"}`, coalesce.Subject{Group: coalesce.Lifecycle, Object: "https://a/1"}, "delete"},
		{"add", add, coalesce.Subject{Group: coalesce.Membership, Object: "https://a/1", Target: "https://a/list"}, "add"},
		{"origin", `{"type":"Remove","object":{"id":"https://a/1"},"origin":{"id":"https://a/list"}}`, coalesce.Subject{Group: coalesce.Membership, Object: "https://a/1", Target: "https://a/list"}, "remove"},
		{"target before origin", `{"type":"Remove","object":"https://a/1","origin":"https://a/2","target":"https://a/3"}`, coalesce.Subject{Group: coalesce.Membership, Object: "https://a/1", Target: "https://a/3"}, "remove"},
		{"null target", `{"type":"Remove","object":"https://a/1","origin":"https://a/2","target":null}`, coalesce.Subject{Group: coalesce.Membership, Object: "https://a/1", Target: "https://a/2"}, "remove"},
		{"no target", `{"type":"Add","object":"https://a/1"}`, coalesce.Subject{Group: coalesce.Membership, Object: "https://a/1"}, "add"},
		{"a target without id", `{"type":"Add","object":"https://a/1","target":{"type":"Collection"}}`, coalesce.Subject{}, ""},
		{"another type", `{"type":"Like","object":"https://a/1"}`, coalesce.Subject{}, ""},
		{"no type", `{"object":"https://a/1"}`, coalesce.Subject{}, ""},
		{"two types", `{"type":["Create","Update"],"object":"https://a/1"}`, coalesce.Subject{}, ""},
		{"no object", `{"type":"Create"}`, coalesce.Subject{}, ""},
		{"an object without id", `{"type":"Create","object":{"content":"one"}}`, coalesce.Subject{}, ""},
		{"an id that is no string", `{"type":"Create","object":{"id":7}}`, coalesce.Subject{}, ""},
		{"several objects", `{"type":"Add","object":["https://a/1","https://a/2"]}`, coalesce.Subject{}, ""},
		{"no object at all", `[]`, coalesce.Subject{}, ""},
		{"no JSON", `{"type":"Create"`, coalesce.Subject{}, ""},
		{"more than JSON", create + "}", coalesce.Subject{}, ""},
	} {
		s, ok := coalesce.Read(c.body)
		if ok != (c.want != coalesce.Subject{}) || ok && (s.Subject != c.want || s.Type != c.typ) {
			t.Errorf("%s: %+v, %v", c.name, s, ok)
		}
	}
}

func content(object string) string {
	s, _ := coalesce.Read(`{"type":"Update","object":` + object + `}`)
	return s.Content
}

func TestObjectsAreComparedDeeplyWithoutTheOrderOfKeys(t *testing.T) {
	const object = `{"id":"x","a":[1,{"b":"c","d":null}],"e":2.5,"f":true}`
	for _, same := range []string{
		`{"f":true,"e":2.5,"a":[1,{"d":null,"b":"c"}],"id":"x"}`,
		` { "id" : "\u0078", "a" : [ 1.0 , { "b":"c", "d":null } ], "e":25e-1, "f":true } `,
	} {
		if content(same) != content(object) {
			t.Errorf("differs: %s", same)
		}
	}
	for _, other := range []string{
		`{"id":"x","a":[{"b":"c","d":null},1],"e":2.5,"f":true}`, // another order of the list
		`{"id":"x","a":[1,{"b":"c"}],"e":2.5,"f":true}`,
		`{"id":"x","a":["1",{"b":"c","d":null}],"e":2.5,"f":true}`,
		`{"id":"x","a":["number 1",{"b":"c","d":null}],"e":2.5,"f":true}`,
		`{"id":"x","a":[1,{"b":"c","d":null}],"e":2.5000000000000001,"f":true}`,
		`{"id":"x","a":[1,{"b":"c","d":null}],"e":2.5,"f":"true"}`,
		`{"id":"x","a":[1,{"b":"c","d":null}],"e":2.5,"f":true,"g":0}`,
	} {
		if content(other) == content(object) {
			t.Errorf("is the same: %s", other)
		}
	}
	if content(`"x"`) != "" {
		t.Error("a mere id has content")
	}
	if content(`{"id":"x","n":1e999999999}`) == "" {
		t.Error("an absurd number is not taken")
	}
}

func TestContentIsThatOfTheValueNotOfTheText(t *testing.T) {
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		kinds := []*rapid.Generator[any]{
			rapid.Just(any(nil)), rapid.Bool().AsAny(), rapid.String().AsAny(), rapid.Int32().AsAny(), rapid.Float64Range(-1e6, 1e6).AsAny(),
		}
		if depth > 0 {
			kinds = append(kinds,
				rapid.SliceOfN(value(depth-1), 0, 4).AsAny(),
				rapid.MapOfN(rapid.StringMatching(`[a-z]{1,3}`), value(depth-1), 0, 4).AsAny())
		}
		return rapid.OneOf(kinds...)
	}
	property.Check(t, func(t *rapid.T) {
		object := rapid.MapOfN(rapid.StringMatching(`[a-z]{1,3}`), value(2), 0, 5).Draw(t, "object")
		object["id"] = "x"
		compact, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		wide, err := json.MarshalIndent(object, " ", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if content(string(compact)) != content(string(wide)) {
			t.Error("white space counts")
		}
		object["id"] = "y"
		changed, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		if content(string(compact)) == content(string(changed)) {
			t.Error("a change does not count")
		}
	})
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{create, update, add, `{"type":"Update","object":{"id":"x","n":1e400,"m":[{}]}}`, `[]`, `"Create"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		s, ok := coalesce.Read(body)
		if ok && (s.Object == "" || s.Group == "" || s.Type != strings.ToLower(s.Type)) {
			t.Errorf("read %+v, want object, group and a type in lower case", s)
		}
	})
}
