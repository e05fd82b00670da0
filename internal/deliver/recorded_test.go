package deliver_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/protocol"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/world"
)

// slowTable takes its time for every write but those of the ledger. Its user
// looks at what those have recorded.
type slowTable struct {
	table.Table
	takes    time.Duration
	recorded func()
}

// ofLedger reports whether an item is of an activity or of a journal.
func ofLedger(k table.Key) bool {
	return strings.HasPrefix(k.PK, "A#") || strings.HasPrefix(k.PK, "J#")
}

func (s slowTable) wait(k table.Key) {
	if !ofLedger(k) {
		time.Sleep(s.takes) // virtual
	}
}

func (s slowTable) Put(ctx context.Context, it table.Item, c table.Cond) error {
	s.wait(it.Key)
	err := s.Table.Put(ctx, it, c)
	if ofLedger(it.Key) {
		s.recorded()
	}
	return err
}

func (s slowTable) PutAll(ctx context.Context, items []table.Item) error {
	s.wait(items[0].Key)
	return s.Table.PutAll(ctx, items)
}

func (s slowTable) Transact(ctx context.Context, ops []table.Op) error {
	time.Sleep(s.takes) // virtual
	return s.Table.Transact(ctx, ops)
}

// TestOutcomesAreRecordedWithinASecond: one chunk has hosts that accept at once
// and later, and hosts that throttle, refuse, fail and hang, while each write of
// what is learnt of hosts or parked takes 2 s. No outcome waits for any of that.
func TestOutcomesAreRecordedWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		answered, recorded := map[string]time.Time{}, map[string]time.Time{}
		answers := func(_ context.Context, a activity.Activity) protocol.Attempt {
			return func(ctx context.Context, to activity.Target, _ int) outcome.Outcome {
				name, _, _ := strings.Cut(to.Host(), ".")
				switch kind := strings.TrimRight(name, "0123456789"); kind {
				case "hangs":
					return world.Hang(ctx)
				case "throttles":
					return outcome.Outcome{Class: outcome.Throttled, Status: 429, Err: "answered 429", RetryAfter: time.Now().Add(time.Minute)}
				case "fails":
					return world.Status(500)
				default:
					var after int
					_, _ = fmt.Sscanf(name, kind+"%d", &after)                // at once if the name has no number
					time.Sleep(time.Duration(after) * 317 * time.Millisecond) // virtual
				}
				mu.Lock()
				defer mu.Unlock()
				answered[to.Inbox] = time.Now()
				return world.Status(map[string]int{"accepts": 202, "refuses": 404}[strings.TrimRight(name, "0123456789")])
			}
		}
		var w *world.World
		var id activity.ID
		look := func() {
			mu.Lock()
			defer mu.Unlock()
			for inbox, r := range w.States(id) {
				if _, known := recorded[inbox]; !known && r.State.Final() {
					recorded[inbox] = time.Now()
				}
			}
		}
		w = world.New(t, world.Options{Now: time.Now, Protocol: world.SenderFunc(answers), Table: func(in table.Table) table.Table {
			return slowTable{in, 2 * time.Second, look}
		}})
		var to []string
		for i := range 10 {
			for _, kind := range []string{"accepts", "refuses", "throttles", "fails", "hangs"} {
				to = append(to, fmt.Sprintf("https://%s%d.example/inbox", kind, i))
			}
		}
		id = w.Send(w.Activity("Create"), to...)
		start := time.Now()
		w.Poll(queue.Normal)
		time.Sleep(time.Minute) // virtual: what is saved in the background
		if len(answered) != 20 {
			t.Errorf("%d final answers, want 20", len(answered))
		}
		for inbox, at := range answered {
			if gap := recorded[inbox].Sub(at); gap < 0 || gap > time.Second {
				t.Errorf("%s answered after %s and was recorded %s later", inbox, at.Sub(start), gap)
			}
		}
		throttled := circuit.InboxKey("https://throttles3.example/inbox")
		found, err := w.Store.Servers(t.Context(), throttled)
		if err != nil || circuit.Of(found, throttled).Phase != circuit.Paused {
			t.Errorf("what was learnt of an inbox is not saved at the end: %v", err)
		}
	})
}
