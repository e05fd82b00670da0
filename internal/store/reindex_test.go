package store_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/store"
	"fedpost/internal/testkit/faults"
	"fedpost/internal/testkit/long"
	"fedpost/internal/testkit/memory"
)

// TestDeadLettersOfAnEarlierVersionAreIndexedOnce, and whatever call fails meanwhile: versions
// before the index of hosts wrote dead letters that no list by host would find.
func TestDeadLettersOfAnEarlierVersionAreIndexedOnce(t *testing.T) {
	long.NotUnderRace(t)
	for broken := 1; ; broken++ {
		over := false
		synctest.Test(t, func(t *testing.T) {
			e := memory.New(time.Now, nil)
			s := store.New(e.Table(), time.Now)
			unindexed := func(n int) {
				t.Helper()
				to := activity.Target{Inbox: "https://h.example/inbox"}
				err := s.AddDeadLetters(t.Context(), []deadletter.DeadLetter{{
					Activity: activity.Activity{ID: activity.DerivedID(time.Now(), string(rune('a'+n))), Protocol: activity.ActivityPub, Type: "Create", Body: "{}", CreatedAt: time.Now().UTC()},
					Delivery: message.Delivery{Targets: []activity.Target{to}, Generation: 1},
					Last:     ledger.Recipient{Target: to, State: activity.Dead, UpdatedAt: time.Now().UTC()},
					Reason:   "exhausted", Died: time.Now().UTC(), Forget: time.Now().UTC().Add(deadletter.Longest),
				}})
				if err != nil {
					t.Fatal(err)
				}
				var keys []table.Key
				for _, it := range e.Items("DH#h.example") {
					keys = append(keys, it.Key)
				}
				if err := e.Table().DeleteAll(t.Context(), keys); err != nil || len(keys) == 0 {
					t.Fatalf("%d items of the index, %v", len(keys), err)
				}
			}
			found := func() int {
				t.Helper()
				ls, _, err := s.DeadLetters(t.Context(), deadletter.Filter{Host: "h.example", Type: "Create"}, "", 100)
				if err != nil {
					t.Fatal(err)
				}
				return len(ls)
			}
			for n := range 3 {
				unindexed(n)
				time.Sleep(25 * time.Hour)
			}
			if n := found(); n != 0 {
				t.Fatalf("%d are found by their host before", n)
			}
			plan := faults.NewPlan(faults.Fault{Call: broken, Kind: faults.FailBefore})
			_, err := store.New(faults.Table(plan, "table", e.Table()), time.Now).IndexDeadLetters(t.Context())
			if over = err == nil; !over {
				if !errors.Is(err, faults.ErrInjected) {
					t.Fatal(err)
				}
				if _, err := s.IndexDeadLetters(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if n := found(); n != 3 {
				t.Errorf("with call %d failing, %d of 3 are found by their host", broken, n)
			}
			unindexed(3)
			if n, err := s.IndexDeadLetters(t.Context()); n != 0 || err != nil {
				t.Errorf("a second time: %d read, %v", n, err)
			}
		})
		if over || t.Failed() {
			if broken < 4 {
				t.Errorf("only %d calls were broken", broken)
			}
			return
		}
	}
}
