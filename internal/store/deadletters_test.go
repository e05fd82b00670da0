package store_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/store"
	"fedpost/internal/testkit/memory"
)

// slowTable takes a third of a second for each query.
type slowTable struct{ table.Table }

func (t slowTable) Query(ctx context.Context, r table.Range) ([]table.Item, bool, error) {
	select {
	case <-time.After(346 * time.Millisecond):
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	return t.Table.Query(ctx, r)
}

// TestDeadLettersOfAHostAreFoundWhileTheTableIsSlow: an operator who asked for the dead
// letters of one host got no answer within the 30 s that a gateway waits, whether there
// were any or not, because the days were read one after another.
func TestDeadLettersOfAHostAreFoundWhileTheTableIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const host = "h.example"
		s := store.New(slowTable{memory.New(time.Now, nil).Table()}, time.Now)
		list := func() []deadletter.DeadLetter {
			t.Helper()
			began := time.Now()
			ls, next, err := s.DeadLetters(t.Context(), deadletter.Filter{Host: host}, "", 100)
			if took := time.Since(began); err != nil || next != "" || took > 15*time.Second {
				t.Errorf("a list took %s, to go on from %q: %v", took, next, err)
			}
			return ls
		}
		if ls := list(); len(ls) != 0 {
			t.Errorf("%d dead letters of nobody", len(ls))
		}
		// One a week, each in a different partition of its day.
		const weeks = 7
		for n := range weeks {
			id := activity.DerivedID(time.Now(), string(rune('a'+n)))
			to := activity.Target{Inbox: "https://" + host + "/inbox"}
			err := s.AddDeadLetters(t.Context(), []deadletter.DeadLetter{{
				Activity: activity.Activity{ID: id, Protocol: activity.ActivityPub, Body: "{}", CreatedAt: time.Now().UTC()},
				Delivery: message.Delivery{Targets: []activity.Target{to}, Generation: 1},
				Last:     ledger.Recipient{Target: to, State: activity.Dead, UpdatedAt: time.Now().UTC()},
				Reason:   "exhausted", Died: time.Now().UTC(), Forget: time.Now().UTC().Add(deadletter.Longest),
			}})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(7 * 24 * time.Hour)
		}
		ls := list()
		if len(ls) != weeks {
			t.Errorf("%d of %d dead letters are found", len(ls), weeks)
		}
		for i := 1; i < len(ls); i++ {
			if !ls[i].Died.After(ls[i-1].Died) {
				t.Errorf("dead letter %d, of %s, comes after one of %s", i, ls[i].Died, ls[i-1].Died)
			}
		}
	})
}

// TestADeadLetterThatWasWrittenWithoutABodyIsDamaged: a delivery whose body is missing dies,
// and a retry of it would send nothing.
func TestADeadLetterThatWasWrittenWithoutABodyIsDamaged(t *testing.T) {
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	s := store.New(memory.New(func() time.Time { return now }, nil).Table(), func() time.Time { return now })
	to := activity.Target{Inbox: "https://h.example/inbox"}
	l := deadletter.DeadLetter{
		Activity: activity.Activity{ID: activity.DerivedID(now, "a"), Protocol: activity.ActivityPub, CreatedAt: now},
		Delivery: message.Delivery{Targets: []activity.Target{to}, Revive: now.Add(time.Hour)},
		Last:     ledger.Recipient{Target: to, State: activity.Dead, UpdatedAt: now},
		Reason:   "damaged", Died: now, Forget: now.Add(deadletter.Longest),
	}
	if err := s.AddDeadLetters(t.Context(), []deadletter.DeadLetter{l}); err != nil {
		t.Fatal(err)
	}
	got, err := s.Named(t.Context(), []deadletter.Name{l.Name()})
	if err != nil || len(got) != 1 || got[0].Damaged == nil || got[0].Revives(now) {
		t.Errorf("dead letters %+v, error %v; want one that is damaged and does not revive", got, err)
	}
}
