package enqueue

import (
	"reflect"
	"testing"

	"fedpost/internal/activity"
)

// TestEveryFieldOfARequestCountsOrDoesNot: a new field of Request must say
// whether it tells apart requests with one deduplication key.
func TestEveryFieldOfARequestCountsOrDoesNot(t *testing.T) {
	fields := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Request]()) {
		fields[f.Name] = true
		if said[f.Name] == 0 {
			t.Errorf("Request.%s is not in said (fingerprint.go): does it tell requests of one key apart?", f.Name)
		}
	}
	for name := range said {
		if !fields[name] {
			t.Errorf("said has %s, which Request has not", name)
		}
	}
}

// TestEachFieldThatCountsChangesTheFingerprint: and no other field changes it.
func TestEachFieldThatCountsChangesTheFingerprint(t *testing.T) {
	print := func(change func(*Request)) string {
		body := "body"
		it := item{Request: Request{Body: &body}, targets: []activity.Target{{Inbox: "https://a.example/"}}}
		change(&it.Request)
		return fingerprint(&plan{operation: opSingle, items: []item{it}})
	}
	was, seen := print(func(*Request) {}), map[string]string{}
	for name, adds := range said {
		now := print(func(r *Request) {
			switch f := reflect.ValueOf(r).Elem().FieldByName(name); f.Kind() {
			case reflect.String:
				f.SetString("x")
			case reflect.Bool:
				f.SetBool(true)
			case reflect.Int64:
				f.SetInt(1)
			case reflect.Pointer:
				x := "x"
				f.Set(reflect.ValueOf(&x))
			case reflect.Slice:
				f.Set(reflect.MakeSlice(f.Type(), 1, 1))
			default:
				t.Fatalf("%s is a %s", name, f.Kind())
			}
		})
		if (now != was) != (adds == itself) {
			t.Errorf("%s: fingerprint %s, was %s", name, now, was)
		}
		if other := seen[now]; now != was && other != "" {
			t.Errorf("%s and %s are one to the fingerprint", name, other)
		}
		seen[now] = name
	}
}

func TestTheOrderOfRecipientsDoesNotCount(t *testing.T) {
	body := "body"
	print := func(inboxes ...string) string {
		it := item{Request: Request{Body: &body}}
		for _, in := range inboxes {
			it.targets = append(it.targets, activity.Target{Inbox: in})
		}
		return fingerprint(&plan{operation: opSingle, items: []item{it}})
	}
	if print("a", "b") != print("b", "a") || print("a", "b") == print("ab") || print("a") == print("a", "b") {
		t.Error("recipients are not told apart as a set")
	}
}
