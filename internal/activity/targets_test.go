package activity

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// FuzzTargetsAreReadAsAListOfTargetsIs, fast or not.
func FuzzTargetsAreReadAsAListOfTargetsIs(f *testing.F) {
	for _, list := range []string{
		`null`, `[]`, `[ ]`, `[""]`, `["https://a.example/inbox"]`, `["a","b"]`, `["a", "b"]`, `["a","b",{"i":"c","n":2}]`, `[{"i":"a"},"b"]`,
		`["a\"]"]`, `["a\\","b"]`, `["a\u0026b"]`, "[\"\xff\"]", `["a",1]`, `[["a"]]`, `["a"],["b"]`, `"a"`, `["a","b"`, `["]`, `["],["]`, `["a""b"]`, `["ä"]`,
		`["a",","]`, `[",",","]`,
	} {
		f.Add(list)
	}
	f.Fuzz(func(t *testing.T, list string) {
		var slow []Target
		slowErr := json.Unmarshal([]byte(list), &slow)
		var fast Targets
		fastErr := json.Unmarshal([]byte(list), &fast)
		if (slowErr == nil) != (fastErr == nil) || slowErr == nil && !reflect.DeepEqual(slow, []Target(fast)) {
			t.Errorf("%q is %+v (%v), want %+v (%v)", list, fast, fastErr, slow, slowErr)
		}
	})
}

// TestALongListOfBareURLsIsReadInFewAllocations: one for its text and one for the targets.
func TestALongListOfBareURLsIsReadInFewAllocations(t *testing.T) {
	const targets = 10_000
	list := []byte(`["` + strings.Repeat(`https://a.example/inbox","`, targets-1) + `https://b.example/inbox"]`)
	var ts Targets
	allocations := testing.AllocsPerRun(3, func() {
		if err := json.Unmarshal(list, &ts); err != nil {
			t.Fatal(err)
		}
	})
	if len(ts) != targets || ts[targets-1] != (Target{Inbox: "https://b.example/inbox", Stands: 1}) {
		t.Errorf("%d targets, the last %+v", len(ts), ts[len(ts)-1])
	}
	if allocations > 20 {
		t.Errorf("%v allocations", allocations)
	}
}

func BenchmarkTargets(b *testing.B) {
	var urls []string
	for n := range 50_000 {
		urls = append(urls, fmt.Sprintf("https://h%d.example/users/%d/inbox", n%5000, n))
	}
	list, err := json.Marshal(urls)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("fast", func(b *testing.B) {
		for b.Loop() {
			var ts Targets
			if err := json.Unmarshal(list, &ts); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("one by one", func(b *testing.B) {
		for b.Loop() {
			var ts []Target
			if err := json.Unmarshal(list, &ts); err != nil {
				b.Fatal(err)
			}
		}
	})
}
