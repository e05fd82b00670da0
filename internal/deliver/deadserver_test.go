package deliver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/table"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
	"fedpost/internal/testkit/world"
)

// counts sums up the states of all recipients of some activities.
func counts(w *world.World, ids []activity.ID) map[activity.State]int {
	m := map[activity.State]int{}
	for _, id := range ids {
		for _, r := range w.States(id) {
			m[r.State]++
		}
	}
	return m
}

// spots counts the deliveries that are parked under a key.
func spots(t *testing.T, w *world.World, key string) int {
	t.Helper()
	n := 0
	for shard := range parking.Shards {
		ps, next, err := w.Store.ParkedUnder(t.Context(), key, shard, "", 10_000)
		if err != nil || next != "" {
			t.Fatalf("read shard %d of the lot: %q, %v", shard, next, err)
		}
		n += len(ps)
	}
	return n
}

// sendOrdered sends n activities of one ordering key to an inbox, a minute apart.
func sendOrdered(w *world.World, n int, key, inbox string) []activity.ID {
	var ids []activity.ID
	for range n {
		a := w.Activity("Create")
		a.OrderingKey = key
		ids = append(ids, w.Send(a, inbox))
		w.Run(time.Minute, time.Second)
	}
	return ids
}

func TestOrderedDeliveriesToADeadServerAllEnd(t *testing.T) {
	w := world.New(t, world.Options{})
	w.Servers.Script("dead.example", world.Down)
	ids := sendOrdered(w, 60, "actor", "https://dead.example/inbox")
	w.Run(7*day-2*time.Hour, time.Minute)
	if got := counts(w, ids); got[activity.Dead] > 0 {
		t.Fatalf("some died early: %v", got)
	}
	// The last was sent an hour after the first; the check at the give-up time of
	// the first and the one after that end them all.
	w.Run(day+3*time.Hour, time.Minute)
	if got := counts(w, ids); got[activity.Dead] != len(ids) || len(w.DeadLetters.Deaths) != len(ids) {
		t.Errorf("states %v, %d dead letters, want %d of each", got, len(w.DeadLetters.Deaths), len(ids))
	}
	if n := spots(t, w, circuit.HostKey("dead.example")); n > 0 {
		t.Errorf("%d spots are still taken", n)
	}
	w.Quiet()
}

func TestOrderedDeliveriesToABlockedServerEndAtOnce(t *testing.T) {
	w := world.New(t, world.Options{})
	w.Servers.Script("dead.example", world.Down)
	ids := sendOrdered(w, 100, "actor", "https://dead.example/inbox")
	_, _, err := circuit.Change(t.Context(), w.Store, circuit.HostKey("dead.example"), func(s circuit.State) circuit.State {
		return s.Block(circuit.Default(), "spam", w.Now())
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Run(5*time.Minute, time.Second)
	if got := counts(w, ids); got[activity.Failed] != len(ids) {
		t.Errorf("states %v five minutes after the block, want %d failed", got, len(ids))
	}
	if n := spots(t, w, circuit.HostKey("dead.example")); n > 0 {
		t.Errorf("%d spots are still taken", n)
	}
}

func TestWhatWaitsForAPausedServerEndsAtItsGiveUpTime(t *testing.T) {
	for _, days := range []int{20, 60, 0} {
		t.Run(fmt.Sprintf("%d days", days), func(t *testing.T) {
			w := world.New(t, world.Options{})
			until := time.Time{}
			if days > 0 {
				until = w.Now().Add(time.Duration(days) * day)
			}
			_, _, err := circuit.Change(t.Context(), w.Store, circuit.HostKey("p.example"), func(s circuit.State) circuit.State {
				return s.Pause(circuit.Default(), until, "operator", w.Now())
			})
			if err != nil {
				t.Fatal(err)
			}
			ids := []activity.ID{w.Send(w.Activity("Create"), "https://p.example/inbox")}
			ids = append(ids, sendOrdered(w, 5, "actor", "https://p.example/inbox")...)
			w.Run(6*day, time.Hour)
			if got := counts(w, ids); got[activity.Parked]+got[activity.Queued] != len(ids) {
				t.Fatalf("after 6 days: %v", got)
			}
			w.Run(2*day+time.Hour, time.Hour)
			if got := counts(w, ids); got[activity.Dead] != len(ids) || len(w.DeadLetters.Deaths) != len(ids) {
				t.Errorf("after 8 days: %v, %d dead letters", got, len(w.DeadLetters.Deaths))
			}
			if s := phase(t, w, circuit.HostKey("p.example")); s.Phase != circuit.Paused {
				t.Errorf("the pause has ended: %s", world.Brief(s))
			}
			// Whatever is parked after that does not wait longer either.
			late := w.Send(w.Activity("Create"), "https://p.example/inbox")
			w.Run(9*day, time.Hour)
			w.Expect(late, map[string]activity.State{"https://p.example/inbox": activity.Dead})
		})
	}
}

func TestARestartOfAServerCostsAMinuteOrTwo(t *testing.T) {
	w := world.New(t, world.Options{})
	w.Servers.Script("s.example", world.Down)
	var ids []activity.ID
	for range 10 {
		ids = append(ids, w.Send(w.Activity("Create"), "https://s.example/inbox"))
	}
	w.Run(12*time.Second, time.Second)
	w.Servers.Script("s.example", nil)
	w.Run(3*time.Minute, time.Second)
	if got := counts(w, ids); got[activity.Delivered] != len(ids) {
		t.Errorf("three minutes after a restart of 12 s: %v; %s", got, world.Brief(phase(t, w, circuit.HostKey("s.example"))))
	}
}

// lotFails is a table whose parking lots cannot be read once.
type lotFails struct {
	table.Table
	once *atomic.Bool
}

func (l lotFails) Query(ctx context.Context, r table.Range) ([]table.Item, bool, error) {
	if strings.HasPrefix(r.PK, "P#") && l.once.CompareAndSwap(true, false) {
		return nil, false, errors.New("injected: the lot cannot be read")
	}
	return l.Table.Query(ctx, r)
}

// TestALookAtAPausedServerThatFailsIsMadeAgain was found by the simulation: the run that
// looked claimed the look for a whole day. When it died or failed, what was overdue stayed
// parked for another day.
func TestALookAtAPausedServerThatFailsIsMadeAgain(t *testing.T) {
	var once atomic.Bool
	w := world.New(t, world.Options{Table: func(next table.Table) table.Table { return lotFails{next, &once} }})
	_, _, err := circuit.Change(t.Context(), w.Store, circuit.HostKey("p.example"), func(s circuit.State) circuit.State {
		return s.Pause(circuit.Default(), w.Now().Add(60*day), "operator", w.Now())
	})
	if err != nil {
		t.Fatal(err)
	}
	id := w.Send(w.Activity("Create"), "https://p.example/inbox")
	w.Run(7*day-time.Hour, time.Hour)
	once.Store(true)
	w.Run(3*time.Hour, time.Minute)
	if once.Load() {
		t.Fatal("no look was made")
	}
	w.Expect(id, map[string]activity.State{"https://p.example/inbox": activity.Dead})
	if s := phase(t, w, circuit.HostKey("p.example")); s.Phase != circuit.Paused {
		t.Errorf("the pause has ended: %s", world.Brief(s))
	}
}

// TestAPausedServerIsLookedAtOnceADay, however often the schedule runs.
func TestAPausedServerIsLookedAtOnceADay(t *testing.T) {
	w := world.New(t, world.Options{})
	key := circuit.HostKey("p.example")
	_, _, err := circuit.Change(t.Context(), w.Store, key, func(s circuit.State) circuit.State {
		return s.Pause(circuit.Default(), w.Now().Add(60*day), "operator", w.Now())
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Send(w.Activity("Create"), "https://p.example/inbox")
	w.Run(day+time.Minute, time.Hour)
	s := phase(t, w, key)
	if until := s.CheckAt.Sub(w.Now()); until < 23*time.Hour || until > day {
		t.Errorf("after a look the next comes in %s", until)
	}
}
