package store_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/ledger"
	"fedpost/internal/ledger/events"
	"fedpost/internal/store"
	"fedpost/internal/testkit/cost"
	"fedpost/internal/testkit/long"
	"fedpost/internal/testkit/memory"
)

// TestTheFeedIsReadFromAnyTimeOn: from the cursor of a time on, a reader gets all events of that
// time and later, and of each log at most the other events of one item.
func TestTheFeedIsReadFromAnyTimeOn(t *testing.T) {
	long.NotUnderRace(t)
	synctest.Test(t, func(t *testing.T) {
		e := memory.New(time.Now, nil)
		estimate := cost.NewEstimate()
		s := store.New(cost.EstimateTable(estimate, e.Table()), time.Now)
		r := rand.New(rand.NewPCG(1, 2))
		since := func(at time.Time) (found []time.Time) {
			t.Helper()
			cursor, err := s.EventsSince(t.Context(), at)
			if err != nil {
				t.Fatal(err)
			}
			for more := true; more; {
				page, err := s.Events(t.Context(), cursor, 100)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range page.Events {
					found = append(found, e.Time)
				}
				cursor, more = page.Next, page.More
			}
			return found
		}
		if got := since(time.Now()); len(got) != 0 {
			t.Errorf("an empty feed has %d", len(got))
		}
		var told []time.Time
		for n := range 600 {
			if n == 300 {
				time.Sleep(29 * 24 * time.Hour)
				e.Sweep(time.Now())
			}
			id := activity.DerivedID(time.Now(), fmt.Sprint(n))
			end, ok := events.EndOf(id, events.About{Type: "Create"}, ledger.Recipient{Target: activity.Target{Inbox: "https://h.example/inbox"}, State: activity.Failed, LastStatus: 400, LastError: "400", UpdatedAt: time.Now()})
			if !ok {
				t.Fatal("no end")
			}
			if err := s.AppendEnds(t.Context(), []events.End{end}); err != nil {
				t.Fatal(err)
			}
			told = append(told, time.Now())
			time.Sleep(time.Duration(r.Int64N(int64(10 * time.Minute))))
		}
		e.Sweep(time.Now())
		kept := since(time.Time{})
		if len(kept) < 300 || len(kept) == 600 {
			t.Fatalf("%d of 600 events are kept", len(kept))
		}
		before := estimate.Snapshot().Service("DynamoDB").ReadUnits
		const looks = 200
		for range looks {
			at := told[r.IntN(len(told))].Add(time.Duration(r.IntN(3)-1) * time.Millisecond).Truncate(time.Millisecond)
			want := 0
			for _, k := range kept {
				if !k.Before(at) {
					want++
				}
			}
			got := since(at)
			for _, g := range got {
				if g.Before(at) {
					t.Errorf("since %s an event of %s", at, g)
				}
			}
			if len(got) != want {
				t.Errorf("since %s %d events, want %d", at, len(got), want)
			}
			if t.Failed() {
				return
			}
		}
		for _, at := range []time.Time{told[599].Add(time.Hour), told[599].Add(1000 * time.Hour)} {
			if got := since(at); len(got) != 0 {
				t.Errorf("%d events since %s", len(got), at)
			}
		}
		t.Logf("%.0f read units for each look and all that follows", (estimate.Snapshot().Service("DynamoDB").ReadUnits-before)/looks)
	})
}
