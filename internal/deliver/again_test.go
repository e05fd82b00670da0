package deliver_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/world"
)

// isSpot reports whether a parked delivery is stored under k.
func isSpot(k table.Key) bool { return strings.HasPrefix(k.PK, "P#") }

// A chunk's message may come again although all is recorded. A recipient that failed has a message
// of its own by then, which waits for the next try.
func TestAChunkThatComesAgainTriesNobodyBeforeItsTime(t *testing.T) {
	w := world.New(t, world.Options{})
	posts := 0
	w.Servers.Script("bad.example", func(world.Request, int) outcome.Outcome {
		posts++
		return world.Status(500)
	})
	w.Send(w.Activity("Create"), "https://bad.example/inbox", "https://good.example/inbox")
	q := w.Engine.Queue(queue.Normal)
	got, err := q.Receive(t.Context(), queue.ReceiveOptions{Max: 1})
	if err != nil || len(got) != 1 {
		t.Fatalf("received %d messages, error %v", len(got), err)
	}
	if err := q.Delete(t.Context(), got[0].Handle); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := q.Send(t.Context(), queue.Message{Body: got[0].Body}); err != nil {
			t.Fatal(err)
		}
		w.Work()
	}
	if posts != 1 {
		t.Errorf("%d POSTs before the first wait was over, want 1", posts)
	}
}

// emptiedLate has something happen before spots are emptied.
type emptiedLate struct {
	table.Table
	before *func()
}

func (e emptiedLate) DeleteAll(ctx context.Context, keys []table.Key) error {
	if before := *e.before; before != nil && len(keys) > 0 && isSpot(keys[0]) {
		*e.before = nil
		before()
		*e.before = before
	}
	return e.Table.DeleteAll(ctx, keys)
}

// A release sends what was parked and then empties its spots. A worker may have parked it
// again by then.
func TestWhatIsParkedAgainBeforeItsOldSpotIsEmptiedIsNotLost(t *testing.T) {
	var before func()
	w := world.New(t, world.Options{Table: func(tbl table.Table) table.Table { return emptiedLate{tbl, &before} }})
	emptied := 0
	before = func() {
		emptied++
		w.Work()
	}
	w.Servers.Script("down.example", world.Down)
	var ids []activity.ID
	for range 5 {
		ids = append(ids, w.Send(w.Activity("Create"), "https://down.example/inbox"))
	}
	// Its probes are answered, so that deliveries try it.
	w.Servers.Script("down.example", func(r world.Request, n int) outcome.Outcome {
		if strings.HasPrefix(r.Inbox, "probe:") {
			return world.Status(200)
		}
		return world.Status(500)
	})
	w.Run(day, time.Minute)
	if emptied == 0 {
		t.Fatal("nothing was released, which shows nothing")
	}
	w.Servers.Script("down.example", nil)
	w.Run(2*day, time.Minute)
	for _, id := range ids {
		w.Expect(id, map[string]activity.State{"https://down.example/inbox": activity.Delivered})
	}
}

// savedLate writes lessons of a server two seconds late, and looks when a spot is written.
type savedLate struct {
	table.Table
	look func()
}

// lesson waits if the item is a lesson: the state of a server that is not marked as having parked
// deliveries.
func (s savedLate) lesson(it table.Item) {
	if strings.HasPrefix(it.PK, "S#") && !bytes.Contains(it.Data, []byte(`"parked":true`)) {
		time.Sleep(2 * time.Second) // virtual
	}
}

func (s savedLate) Put(ctx context.Context, it table.Item, cond table.Cond) error {
	s.lesson(it)
	return s.Table.Put(ctx, it, cond)
}

func (s savedLate) Transact(ctx context.Context, ops []table.Op) error {
	for _, op := range ops {
		if op.Put != nil {
			s.lesson(*op.Put)
		}
	}
	return s.Table.Transact(ctx, ops)
}

func (s savedLate) PutAll(ctx context.Context, items []table.Item) error {
	if len(items) > 0 && isSpot(items[0].Key) {
		s.look()
	}
	return s.Table.PutAll(ctx, items)
}

// Otherwise the scheduled run would find deliveries parked for a server that accepts them, and
// release them at once.
func TestACircuitIsOpenBeforeAnythingIsParkedUnderIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parked := 0
		var w *world.World
		w = world.New(t, world.Options{Now: time.Now, Table: func(tbl table.Table) table.Table {
			return savedLate{tbl, func() {
				parked++
				s, err := circuit.Load(t.Context(), w.Raw(), circuit.HostKey("down.example"))
				if err != nil {
					t.Error(err)
				}
				if s.Phase == circuit.Healthy {
					t.Errorf("a delivery is parked while the state of its server says %s", world.Brief(s))
				}
			}}
		}})
		w.Servers.Script("down.example", world.Down)
		for range 5 {
			w.Send(w.Activity("Create"), "https://down.example/inbox")
		}
		for range 60 {
			w.Work()
			time.Sleep(time.Minute) // virtual
		}
		if parked == 0 {
			t.Error("nothing was parked, which shows nothing")
		}
	})
}
