package enqueue

import (
	"reflect"
	"testing"

	"fedpost/internal/activity"
)

// TestWhatIsCountedIsAFieldOfARequest: a field that is renamed would count in another place.
func TestWhatIsCountedIsAFieldOfARequest(t *testing.T) {
	for _, c := range counted {
		if _, ok := reflect.TypeFor[Request]().FieldByName(c.field); !ok {
			t.Errorf("counted has %s, which Request has not", c.field)
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
	for _, c := range allCounted() {
		name, adds := c.field, c.adds
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
		if counts := adds == itself || adds == bodies; counts && now == was || !counts && now != was {
			t.Errorf("%s counts for the fingerprint: %t; it was %s, and is %s", name, counts, was, now)
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
