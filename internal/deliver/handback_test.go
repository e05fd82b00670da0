package deliver_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/deliver"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/testkit/engines"
	"fedpost/internal/testkit/faults"
	"fedpost/internal/testkit/world"
)

// TestAMessageThatItsQueueDoesNotTakeBackIsHandedBackWithPauses: the table can be written all the
// time, so that nothing but the pauses keeps the tries apart.
func TestAMessageThatItsQueueDoesNotTakeBackIsHandedBackWithPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		f := &failing{all: true, from: began, to: began.Add(20 * time.Second)}
		w, run := living(t, engines.Maps(), f)
		id := string(w.Send(w.Activity("Create"), "https://host.example/1"))
		var mu sync.Mutex
		var tries []time.Duration
		f.about = func(c faults.Call) bool {
			since := time.Since(began)
			if c.Op == "ChangeVisibility" {
				mu.Lock()
				defer mu.Unlock()
				tries = append(tries, since)
				return true
			}
			return since < time.Second && strings.Contains(c.About, id)
		}
		run(func() bool { return len(w.Servers.Got()) > 0 }, 5*time.Minute)
		if got := w.Servers.Got(); len(got) != 1 || got[0].At.Sub(began) > time.Minute {
			t.Errorf("%d requests, want one within a minute: the visibility timeout is six", len(got))
		}
		mu.Lock()
		defer mu.Unlock()
		if n := len(tries); n < 4 || n > 8 {
			t.Fatalf("the queue was asked %d times in 20 s, want 4 to 8: %v", n, tries)
		}
		for i := 2; i < len(tries); i++ {
			if tries[i]-tries[i-1] < tries[i-1]-tries[i-2] {
				t.Errorf("the pauses do not grow: %v", tries)
			}
		}
	})
}

// TestAMessageIsHandedBackAfterAnOutageThoughNothingIsKept: no outcome waits for the table, and
// table and queue are out of reach for longer than the tries would take.
func TestAMessageIsHandedBackAfterAnOutageThoughNothingIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		f := &failing{all: true, from: began, to: began.Add(3 * time.Minute)}
		f.about = func(c faults.Call) bool { return c.Op != "Receive" }
		w, run := living(t, engines.Maps(), f)
		w.Send(w.Activity("Create"), "https://host.example/1")
		run(func() bool { return len(w.Servers.Got()) > 0 }, time.Hour)
		if got := w.Servers.Got(); len(got) != 1 || got[0].At.Sub(f.to) > time.Minute {
			t.Errorf("%d requests, want one within a minute of the end of the outage", len(got))
		}
	})
}

// TestAProcessThatEndsWaitsForNoQueueToTakeAMessageBack: the message comes back by itself.
func TestAProcessThatEndsWaitsForNoQueueToTakeAMessageBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		f := &failing{all: true, from: began, to: began.Add(time.Hour)}
		w, _ := living(t, engines.Maps(), f)
		id := string(w.Send(w.Activity("Create"), "https://host.example/1"))
		f.about = func(c faults.Call) bool { return c.Op == "ChangeVisibility" || strings.Contains(c.About, id) }
		ctx, cancel := context.WithCancel(t.Context())
		m := w.Mapping(queue.Normal)
		m.Queue = faults.Queue(f, "normal", w.Engine.Queue(queue.Normal))
		time.AfterFunc(3*time.Second, func() {
			cancel()
			w.Deliver.Stop()
		})
		m.Run(ctx)
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("it ended after %s, and was told to after 3s", took)
		}
	})
}

// hanging is a queue whose messages cannot be handed back: the call hangs.
type hanging struct{ queue.Queue }

func (hanging) ChangeVisibility(ctx context.Context, _ string, _ time.Duration) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestAnInvocationAnswersInTimeThoughItsQueueAndTheLogOfEventsHang: without an answer, what it has
// delivered comes back, too.
func TestAnInvocationAnswersInTimeThoughItsQueueAndTheLogOfEventsHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, world.Options{Engine: engines.Maps(), Now: time.Now, Table: func(in table.Table) table.Table { return stuck{in} }})
		w.Servers.Script("gone.example", world.Answers(410))
		w.Send(w.Activity("Create"), "https://gone.example/1", "https://hangs.example/1")
		w.Send(w.Activity("Create"), "https://well.example/1")
		w.Servers.Script("hangs.example", func(world.Request, int) outcome.Outcome {
			time.Sleep(10 * time.Second) // virtual
			return world.Status(202)
		})
		c := w.Config()
		c.Queues = func(n queue.Name) deliver.Queue { return hanging{w.Engine.Queue(n)} }
		d := deliver.New(c)
		batch, err := w.Engine.Queue(queue.Normal).Receive(t.Context(), queue.ReceiveOptions{Max: 10})
		if err != nil || len(batch) != 2 {
			t.Fatal(len(batch), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		failed, err := d.Handle(ctx, queue.Normal, batch)
		if ctx.Err() != nil || err != nil || len(failed) != 1 {
			t.Errorf("failed %v, %v, in time: %t; want one, in time", failed, err, ctx.Err() == nil)
		}
	})
}

// stuck is a table whose logs of events and journals hang.
type stuck struct{ table.Table }

func (s stuck) Put(ctx context.Context, it table.Item, cond table.Cond) error {
	if strings.HasPrefix(it.PK, "J#") {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Table.Put(ctx, it, cond)
}

func (s stuck) Query(ctx context.Context, r table.Range) ([]table.Item, bool, error) {
	if strings.HasPrefix(r.PK, "E#") {
		<-ctx.Done()
		return nil, false, ctx.Err()
	}
	return s.Table.Query(ctx, r)
}
