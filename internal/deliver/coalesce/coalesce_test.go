package coalesce_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"fedpost/internal/activity"
	"fedpost/internal/deliver/coalesce"
	"fedpost/internal/testkit/property"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

func says(t *testing.T, body string) coalesce.Statement {
	t.Helper()
	s, ok := coalesce.Read(body)
	if !ok {
		t.Fatalf("says nothing: %s", body)
	}
	return s
}

const (
	create = `{"type":"Create","object":{"id":"https://a/1","content":"one"}}`
	update = `{"type":"Update","object":{"id":"https://a/1","content":"two"}}`
	add    = `{"type":"Add","object":"https://a/1","target":"https://a/list"}`
)

// R1
func TestTheNewestOfABurstWins(t *testing.T) {
	newer := func(id activity.ID, typ string, seconds int, asked bool) coalesce.Accepted {
		return coalesce.Accepted{ID: id, At: at(seconds), Type: typ, CoalesceCreate: asked}
	}
	ends := func(id activity.ID, seconds, end int) coalesce.Accepted {
		return coalesce.Accepted{ID: id, At: at(seconds), Type: "update", ExpiresAt: at(end)}
	}
	cancelled := newer("b", "update", 1, false)
	cancelled.Cancelled = true
	for _, c := range []struct {
		name  string
		body  string
		own   coalesce.Accepted
		newer []coalesce.Accepted
		by    activity.ID // empty: sent
	}{
		{"nothing else", update, newer("own", "update", 0, false), nil, ""},
		{"a newer one", update, newer("own", "update", 0, false), []coalesce.Accepted{newer("b", "update", 1, false)}, "b"},
		{"several newer", update, newer("own", "update", 0, false), []coalesce.Accepted{newer("b", "update", 1, false), newer("c", "delete", 3, false), newer("d", "update", 2, false)}, "c"},
		{"an older one", update, newer("own", "update", 1, false), []coalesce.Accepted{newer("b", "update", 0, false)}, ""},
		{"one of the same time", update, newer("own", "update", 0, false), []coalesce.Accepted{newer("b", "update", 0, false)}, ""},
		{"itself", update, newer("own", "update", 0, false), []coalesce.Accepted{newer("own", "update", 0, false)}, ""},
		{"an update of a create", create, newer("own", "create", 0, false), []coalesce.Accepted{newer("b", "update", 1, false)}, ""},
		{"an update of a create, which the create allows", create, newer("own", "create", 0, true), []coalesce.Accepted{newer("b", "update", 1, false)}, "b"},
		{"an update of a create, which the update allows", create, newer("own", "create", 0, false), []coalesce.Accepted{newer("b", "update", 1, true)}, "b"},
		{"a delete of a create", create, newer("own", "create", 0, false), []coalesce.Accepted{newer("b", "delete", 1, false), newer("c", "update", 2, false)}, "b"},
		{"another create of a create", create, newer("own", "create", 0, false), []coalesce.Accepted{newer("b", "create", 1, false)}, "b"},
		{"an update of a creation", `{"type":"Creation","object":"https://a/1"}`, newer("own", "creation", 0, false), []coalesce.Accepted{newer("b", "update", 1, false)}, ""},
		{"one that expires", update, newer("own", "update", 0, false), []coalesce.Accepted{ends("b", 1, 60)}, ""},
		{"one that expires, and one that does not", update, newer("own", "update", 0, false), []coalesce.Accepted{newer("c", "update", 1, false), ends("b", 2, 60)}, "c"},
		{"one that expires sooner", update, ends("own", 0, 61), []coalesce.Accepted{ends("b", 1, 60)}, ""},
		{"one that expires as late", update, ends("own", 0, 60), []coalesce.Accepted{ends("b", 1, 60)}, "b"},
		{"one that does not expire", update, ends("own", 0, 60), []coalesce.Accepted{newer("b", "update", 1, false)}, "b"},
		{"one that was cancelled", update, newer("own", "update", 0, false), []coalesce.Accepted{cancelled}, ""},
		{"a remove of an add", add, newer("own", "add", 0, false), []coalesce.Accepted{newer("b", "remove", 1, false)}, "b"},
	} {
		got, needless := coalesce.Judge(c.own, says(t, c.body), c.newer, nil)
		want := coalesce.Verdict{}
		if c.by != "" {
			want = coalesce.Verdict{State: activity.Superseded, By: c.by}
		}
		if got != want || needless != (c.by != "") {
			t.Errorf("%s: %+v, %v", c.name, got, needless)
		}
	}
}

// R2 and R3
func TestWhatIsKnownIsNotSent(t *testing.T) {
	delivered := func(body string) coalesce.Delivered {
		s := says(t, body)
		return coalesce.Delivered{ID: "last", Type: s.Type, Content: s.Content}
	}
	for _, c := range []struct {
		name, body, last string
		redundant        bool
	}{
		{"an update with nothing new", update, update, true},
		{"an update with what the create said", `{"type":"Update","object":{"content":"one","id":"https://a/1"}}`, create, true},
		{"an update with news", update, create, false},
		{"a create once more", create, create, false},
		{"an update by a mere id", `{"type":"Update","object":"https://a/1"}`, `{"type":"Update","object":"https://a/1"}`, false},
		{"a delete once more", `{"type":"Delete","object":{"id":"https://a/1"}}`, `{"type":"Delete","object":{"id":"https://a/1"}}`, false},
		{"an add once more", add, add, true},
		{"an add of the whole object once more", `{"type":"Add","object":{"id":"https://a/1","name":"changed"},"target":{"id":"https://a/list"}}`, add, true},
		{"an add after a remove", add, `{"type":"Remove","object":"https://a/1","target":"https://a/list"}`, false},
		{"a remove once more", `{"type":"remove","object":"https://a/1","origin":"https://a/list"}`, `{"type":"Remove","object":"https://a/1","target":"https://a/list"}`, true},
		{"an add to nowhere", `{"type":"Add","object":"https://a/1"}`, `{"type":"Add","object":"https://a/1"}`, false},
	} {
		last := delivered(c.last)
		own := coalesce.Accepted{ID: "own", At: start}
		got, needless := coalesce.Judge(own, says(t, c.body), nil, &last)
		want := coalesce.Verdict{}
		if c.redundant {
			want = coalesce.Verdict{State: activity.Redundant, By: "last"}
		}
		if got != want || needless != c.redundant {
			t.Errorf("%s: %+v, %v", c.name, got, needless)
		}
		if _, needless := coalesce.Judge(own, says(t, c.body), nil, nil); needless {
			t.Errorf("%s: needless although nothing was delivered", c.name)
		}
		last.ID = "own"
		if _, needless := coalesce.Judge(own, says(t, c.body), nil, &last); needless {
			t.Errorf("%s: made needless by itself", c.name)
		}
	}
}

func TestTheRulesApplyInOrder(t *testing.T) {
	s := says(t, update)
	last := coalesce.Delivered{ID: "last", Type: "update", Content: s.Content}
	newer := []coalesce.Accepted{{ID: "newer", At: at(1), Type: "update"}}
	got, ok := coalesce.Judge(coalesce.Accepted{ID: "own", At: start}, s, newer, &last)
	if !ok || got != (coalesce.Verdict{State: activity.Superseded, By: "newer"}) {
		t.Errorf("judged %+v, %v; want superseded by newer", got, ok)
	}
}

// In whatever order a burst is sent, and whichever delivery is delayed: for each
// delivery that is dropped, a newer one is sent.
func TestSomethingOfABurstIsAlwaysSent(t *testing.T) {
	types := []string{"create", "update", "delete", "creation", "deletion"}
	property.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "n")
		burst := make([]coalesce.Accepted, n)
		for i := range burst {
			burst[i] = coalesce.Accepted{
				ID: activity.ID(rune('a' + i)), At: at(rapid.IntRange(0, 4).Draw(t, "at")),
				Type: rapid.SampledFrom(types).Draw(t, "type"), CoalesceCreate: rapid.Bool().Draw(t, "coalesceCreate"),
				Cancelled: rapid.Bool().Draw(t, "cancelled"),
			}
			if end := rapid.IntRange(0, 3).Draw(t, "end"); end > 0 {
				burst[i].ExpiresAt = at(10 * end)
			}
		}
		sent := map[activity.ID]bool{}
		by := map[activity.ID]activity.ID{}
		for _, own := range burst {
			s := coalesce.Statement{Subject: coalesce.Subject{Group: coalesce.Lifecycle, Object: "o"}, Type: own.Type}
			v, needless := coalesce.Judge(own, s, burst, nil)
			sent[own.ID], by[own.ID] = !needless, v.By
		}
		for _, own := range burst {
			for _, other := range burst {
				if other.ID == by[own.ID] && (other.Cancelled || !other.ExpiresAt.IsZero() && (own.ExpiresAt.IsZero() || other.ExpiresAt.Before(own.ExpiresAt))) {
					t.Fatalf("%+v is dropped for %+v", own, other)
				}
			}
		}
		for id := range by {
			steps := 0
			for at := id; !sent[at]; at = by[at] {
				if steps++; steps > n {
					t.Fatalf("%s is dropped for one that is dropped, and so on: %v", id, by)
				}
			}
		}
	})
}
