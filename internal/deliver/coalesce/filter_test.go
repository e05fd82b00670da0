package coalesce_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fedpost/internal/activity"
	"fedpost/internal/deliver/coalesce"
)

// notes is a store in memory.
type notes struct {
	accepted  map[string][]coalesce.Accepted // by subject and inbox
	delivered map[string]coalesce.Delivered
	cancelled map[activity.ID]bool
	forget    time.Time
}

func (n *notes) Cancelled(context.Context, []activity.ID) (map[activity.ID]bool, error) {
	return n.cancelled, nil
}

func key(s coalesce.Subject, inbox string) string {
	return string(s.Group) + " " + s.Object + " " + s.Target + " " + inbox
}

func (n *notes) PutAccepted(_ context.Context, s coalesce.Subject, a coalesce.Accepted, inboxes []string, forget time.Time) error {
	for _, i := range inboxes {
		n.accepted[key(s, i)] = append(n.accepted[key(s, i)], a)
	}
	n.forget = forget
	return nil
}

func (n *notes) NewerAccepted(_ context.Context, s coalesce.Subject, after time.Time, inboxes []string) (map[string][]coalesce.Accepted, error) {
	found := map[string][]coalesce.Accepted{}
	for _, i := range inboxes {
		for _, a := range n.accepted[key(s, i)] {
			if a.At.After(after) {
				found[i] = append(found[i], a)
			}
		}
	}
	return found, nil
}

func (n *notes) PutDelivered(_ context.Context, s coalesce.Subject, d coalesce.Delivered, inboxes []string, forget time.Time) error {
	for _, i := range inboxes {
		n.delivered[key(s, i)] = d
	}
	n.forget = forget
	return nil
}

func (n *notes) LastDelivered(_ context.Context, s coalesce.Subject, inboxes []string) (map[string]coalesce.Delivered, error) {
	found := map[string]coalesce.Delivered{}
	for _, i := range inboxes {
		if d, ok := n.delivered[key(s, i)]; ok {
			found[i] = d
		}
	}
	return found, nil
}

func TestFilterFollowsEachInbox(t *testing.T) {
	store := &notes{accepted: map[string][]coalesce.Accepted{}, delivered: map[string]coalesce.Delivered{}}
	f := coalesce.Filter{Store: store, Now: func() time.Time { return at(100) }, Pending: 7 * 24 * time.Hour, Remember: 30 * 24 * time.Hour}
	act := func(id activity.ID, seconds int, body string) activity.Activity {
		return activity.Activity{ID: id, Body: body, CreatedAt: at(seconds), Options: activity.Options{Coalesce: activity.CoalesceLatest}}
	}
	targets := func(names ...string) []activity.Target {
		var ts []activity.Target
		for _, n := range names {
			ts = append(ts, activity.Target{Inbox: "https://" + n + ".example/inbox", Stands: 1})
		}
		return ts
	}
	needless := func(a activity.Activity, ts []activity.Target) map[int]coalesce.Verdict {
		t.Helper()
		got, err := f.Needless(t.Context(), a, ts)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	first, second := act("1", 1, create), act("2", 2, update)
	must(f.Accepted(t.Context(), first, targets("a", "b", "c")))
	must(f.Delivered(t.Context(), first, targets("a", "b")))
	must(f.Accepted(t.Context(), second, targets("b", "c", "d")))
	if want := at(100).Add(f.Pending); !store.forget.Equal(want) {
		t.Errorf("accepted activities are forgotten at %v, want %v", store.forget, want)
	}
	third := act("3", 3, update)
	must(f.Accepted(t.Context(), third, targets("d")))

	by := func(s activity.State, id activity.ID) coalesce.Verdict {
		return coalesce.Verdict{State: s, By: id}
	}
	all := targets("a", "b", "c", "d")
	if d := cmp.Diff(map[int]coalesce.Verdict{3: by(activity.Superseded, "3")}, needless(second, all)); d != "" {
		t.Errorf("second (-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[int]coalesce.Verdict{}, needless(first, all)); d != "" {
		t.Errorf("a create, which an update does not supersede (-want +got):\n%s", d)
	}
	first.CoalesceCreate = true
	want := map[int]coalesce.Verdict{1: by(activity.Superseded, "2"), 2: by(activity.Superseded, "2"), 3: by(activity.Superseded, "3")}
	if d := cmp.Diff(want, needless(first, all)); d != "" {
		t.Errorf("a create that says it may (-want +got):\n%s", d)
	}
	must(f.Delivered(t.Context(), second, targets("b")))
	if want := at(100).Add(f.Remember); !store.forget.Equal(want) {
		t.Errorf("deliveries are forgotten at %v, want %v", store.forget, want)
	}
	if d := cmp.Diff(map[int]coalesce.Verdict{1: by(activity.Redundant, "2")}, needless(third, all)); d != "" {
		t.Errorf("third (-want +got):\n%s", d)
	}
}

func TestFilterLeavesAloneWhatDidNotAskForIt(t *testing.T) {
	f := coalesce.Filter{Now: func() time.Time { return start }} // no store to ask
	ts := []activity.Target{{Inbox: "https://a.example/inbox"}}
	for _, a := range []activity.Activity{
		{ID: "1", Body: update, CreatedAt: start},
		{ID: "1", Body: update, CreatedAt: start, Options: activity.Options{Coalesce: activity.CoalesceNone}},
		{ID: "1", Body: `{"type":"Like","object":"https://a/1"}`, CreatedAt: start, Options: activity.Options{Coalesce: activity.CoalesceLatest}},
		{ID: "1", Body: `no JSON`, CreatedAt: start, Options: activity.Options{Coalesce: activity.CoalesceLatest}},
	} {
		if err := f.Accepted(t.Context(), a, ts); err != nil {
			t.Error(err)
		}
		if err := f.Delivered(t.Context(), a, ts); err != nil {
			t.Error(err)
		}
		if got, err := f.Needless(t.Context(), a, ts); len(got) != 0 || err != nil {
			t.Errorf("needless are %+v, error %v; want none", got, err)
		}
	}
}
