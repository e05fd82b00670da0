package deadletter_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/deliver/bodies"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/engine/table"
	"fedpost/internal/testkit/cost"
	"fedpost/internal/testkit/world"
)

// TestWhatHasFailedIsRetriedByTheFiltersOfDeadLetters: by host, type, activity and time, each
// once, and nothing else.
func TestWhatHasFailedIsRetriedByTheFiltersOfDeadLetters(t *testing.T) {
	const strict = "https://strict.example/inbox"
	for name, c := range map[string]struct {
		filter func(old, like, young activity.ID, half time.Time) deadletter.Filter
		want   []string // activity and inbox that are sent to
	}{
		"all": {func(_, _, _ activity.ID, _ time.Time) deadletter.Filter { return deadletter.Filter{} }, []string{"old no", "old strict", "like no", "young no"}},
		"host": {func(_, _, _ activity.ID, _ time.Time) deadletter.Filter {
			return deadletter.Filter{Host: "strict.example"}
		}, []string{"old strict"}},
		"type":  {func(_, _, _ activity.ID, _ time.Time) deadletter.Filter { return deadletter.Filter{Type: "Like"} }, []string{"like no"}},
		"since": {func(_, _, _ activity.ID, half time.Time) deadletter.Filter { return deadletter.Filter{Since: half} }, []string{"young no"}},
		"host and since": {func(_, _, _ activity.ID, half time.Time) deadletter.Filter {
			return deadletter.Filter{Host: "strict.example", Since: half}
		}, nil},
		"activity": {func(old, _, _ activity.ID, _ time.Time) deadletter.Filter { return deadletter.Filter{Activity: old} }, []string{"old no", "old strict"}},
		"activity and host": {func(old, _, _ activity.ID, _ time.Time) deadletter.Filter {
			return deadletter.Filter{Activity: old, Host: "strict.example"}
		}, []string{"old strict"}},
		"activity and type": {func(old, _, _ activity.ID, _ time.Time) deadletter.Filter {
			return deadletter.Filter{Activity: old, Type: "Like"}
		}, nil},
		"activity and since": {func(old, _, _ activity.ID, half time.Time) deadletter.Filter {
			return deadletter.Filter{Activity: old, Since: half}
		}, nil},
		"an activity of nobody": {func(_, _, _ activity.ID, _ time.Time) deadletter.Filter {
			return deadletter.Filter{Activity: "01ARZ3NDEKTSV4RRFFQ69G5FAV"}
		}, nil},
		"the name of a dead letter": {func(old, _, _ activity.ID, _ time.Time) deadletter.Filter {
			n, err := deadletter.ParseName("2026-03-01." + string(old) + ".0.0.0")
			if err != nil {
				panic(err)
			}
			return deadletter.Filter{Name: n}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newAfterlife(t, world.Options{})
			w.sicken()
			w.Servers.Script("strict.example", world.Answers(422))
			old := w.Send(w.Activity("Create"), noInbox, strict, sickInbox, fine)
			like := w.Send(w.Activity("Like"), noInbox)
			cancelled := w.Send(w.Activity("Create"), noInbox)
			w.pass(time.Hour)
			half := w.Clock.Now()
			w.pass(time.Minute)
			young := w.Send(w.Activity("Create"), noInbox)
			w.pass(time.Hour)
			if err := w.Raw().CancelActivity(t.Context(), cancelled); err != nil {
				t.Fatal(err)
			}
			w.Servers.Script("strict.example", world.Answers(202))
			w.repent()
			before := len(w.Servers.Got())
			r := deadletter.FailedRetrier{Retrier: w.retrier(), Feed: w.Store}
			f := c.filter(old, like, young, half)
			for round, want := range []int{len(c.want), 0} {
				n, cursor := 0, ""
				for first := true; first || cursor != ""; first = false {
					some, next, err := r.RetryFailed(t.Context(), f, cursor, 1, w.Clock.Now().Add(time.Minute))
					if err != nil {
						t.Fatal(err)
					}
					n, cursor = n+some, next
				}
				if n != want {
					t.Errorf("round %d retried %d, want %d", round, n, want)
				}
			}
			w.pass(time.Hour)
			names := map[activity.ID]string{old: "old", like: "like", young: "young", cancelled: "cancelled"}
			inboxes := map[string]string{noInbox: "no", strict: "strict", sickInbox: "sick", fine: "fine"}
			got := map[string]bool{}
			for _, g := range w.Servers.Got()[before:] {
				got[names[g.Activity.ID]+" "+inboxes[g.Inbox]] = true
			}
			slices.Sort(c.want)
			if sent := slices.Sorted(maps.Keys(got)); !slices.Equal(sent, c.want) {
				t.Errorf("sent %q, want %q", sent, c.want)
			}
		})
	}
}

// TestAFailureWhoseBodyIsLostHoldsUpNoOther: whoever retried all that had failed got an error at
// it, each time, and nothing behind it was retried.
func TestAFailureWhoseBodyIsLostHoldsUpNoOther(t *testing.T) {
	for name, damage := range map[string]func(*table.Item){
		"its body":  func(it *table.Item) { it.SK = strings.Replace(it.SK, "BODY#", "LOST#", 1) },
		"the whole": func(it *table.Item) { it.Data = it.Data[:len(it.Data)/2] },
	} {
		t.Run(name, func(t *testing.T) {
			w := newAfterlife(t, world.Options{})
			w.sicken()
			a := w.Activity("Create")
			a.Body = `{"content":"` + strings.Repeat("a large body ", bodies.Large/10) + `"}`
			a.ID = w.Send(a, noInbox)
			w.pass(time.Hour)
			// As if others of its recipients had needed many copies of the body.
			var err error
			if a.Apart, err = w.Raw().KeepBody(t.Context(), a, w.Clock.Now().Add(oneDay)); err == nil {
				err = w.Raw().KeepContent(t.Context(), a, w.Clock.Now().Add(oneDay))
			}
			if err != nil {
				t.Fatal(err)
			}
			sound := w.Send(w.Activity("Create"), noInbox)
			w.pass(time.Hour)
			w.repent()
			items, _, err := w.Engine.Table().Query(t.Context(), table.Range{PK: "A#" + string(a.ID), To: "D"})
			if err != nil || len(items) != 2 || !strings.HasPrefix(items[0].SK, "BODY#") || items[1].SK != "CONTENT" {
				t.Fatalf("kept are %d items, %v", len(items), err)
			}
			it := items[0]
			if name == "the whole" {
				it = items[1]
			}
			if err := w.Engine.Table().DeleteAll(t.Context(), []table.Key{it.Key}); err != nil {
				t.Fatal(err)
			}
			damage(&it)
			if err := w.Engine.Table().PutAll(t.Context(), []table.Item{it}); err != nil {
				t.Fatal(err)
			}
			r := deadletter.FailedRetrier{Retrier: w.retrier(), Feed: w.Store}
			if n, _, err := r.RetryFailed(t.Context(), deadletter.Filter{}, "", 10, w.Clock.Now().Add(time.Minute)); n != 1 || err != nil {
				t.Errorf("retried %d, %v", n, err)
			}
			if got := w.retry(a.ID, deadletter.Choice{Failed: true}); got.Sent != 0 || got.Unavailable != 1 {
				t.Errorf("by itself: %+v", got)
			}
			f := deadletter.Filter{Activity: a.ID, Type: a.Type}
			if n, _, err := r.RetryFailed(t.Context(), f, "", 10, w.Clock.Now().Add(time.Minute)); n != 0 || err != nil {
				t.Errorf("by its type: %d, %v", n, err)
			}
			w.pass(time.Hour)
			w.Expect(sound, map[string]activity.State{noInbox: activity.Delivered})
		})
	}
}

func TestACursorOfNobodyRetriesNothing(t *testing.T) {
	w := newAfterlife(t, world.Options{})
	r := deadletter.FailedRetrier{Retrier: w.retrier(), Feed: w.Store}
	for _, f := range []deadletter.Filter{{}, {Activity: w.Send(w.Activity("Create"), fine)}} {
		for _, bad := range []string{"x", "event.x", "chunk.7", "chunk.-1"} {
			if n, _, err := r.RetryFailed(t.Context(), f, bad, 1, w.Clock.Now()); n != 0 || !errors.Is(err, deadletter.ErrBadCursor) {
				t.Errorf("%+v from %q: %d, %v", f, bad, n, err)
			}
		}
	}
}

// TestCostOfARetryOfWhatHasFailed holds what docs/costs.md says of it.
func TestCostOfARetryOfWhatHasFailed(t *testing.T) {
	const n = 200
	estimate := cost.NewEstimate()
	w := newAfterlife(t, world.Options{Table: func(tbl table.Table) table.Table { return cost.EstimateTable(estimate, tbl) }})
	w.sicken()
	w.Servers.Script("other.example", world.Answers(404))
	for range n {
		w.Send(w.Activity("Create"), noInbox)
		w.Send(w.Activity("Create"), "https://other.example/inbox")
		w.pass(time.Minute)
	}
	r := deadletter.FailedRetrier{Retrier: w.retrier(), Feed: w.Store}
	units := func(f deadletter.Filter, want int) (reads, writes float64) {
		t.Helper()
		before := estimate.Snapshot().Service("DynamoDB")
		got := 0
		for cursor, first := "", true; first || cursor != ""; first = false {
			some, next, err := r.RetryFailed(t.Context(), f, cursor, n, w.Clock.Now().Add(time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			got, cursor = got+some, next
		}
		if got != want {
			t.Fatalf("%d were retried, want %d", got, want)
		}
		after := estimate.Snapshot().Service("DynamoDB")
		return after.ReadUnits - before.ReadUnits, after.WriteUnits - before.WriteUnits
	}
	reads, _ := units(deadletter.Filter{Host: "third.example"}, 0)
	t.Logf("reading %d events costs %.1f read units", 2*n, reads)
	if reads > 1.3*n {
		t.Errorf("reading %d events costs %.1f read units", 2*n, reads)
	}
	more, writes := units(deadletter.Filter{Host: "refuses.example"}, n)
	t.Logf("a retry costs %.2f read units and %.2f write units", (more-reads)/n, writes/n)
	if (more-reads)/n > 5.5 || writes/n > 1.1 {
		t.Errorf("a retry costs %.2f read units and %.2f write units", (more-reads)/n, writes/n)
	}
}
