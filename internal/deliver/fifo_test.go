package deliver_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/deliver"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
	"fedpost/internal/testkit/faults"
	"fedpost/internal/testkit/world"
)

// TestARetryWaitsAlsoWhereTheQueueHasNoDelays: a target that fails in its chunk gets a message of
// its own, whose first wait is the queue's delay or, on a FIFO queue, in the message. The
// neighbours wait for nothing, and the message is not received more often than it has to be.
func TestARetryWaitsAlsoWhereTheQueueHasNoDelays(t *testing.T) {
	onBothTypes(t, func(t *testing.T, typ queue.Type) {
		w := world.New(t, world.Options{QueueType: typ})
		w.Servers.Script("stumbles.example", world.Then(2, world.Answers(500), nil))
		id := w.Send(w.Activity("Create"), "https://stumbles.example/1", "https://fine.example/1")
		w.Work()
		if n := len(w.Servers.Got()); n != 2 {
			t.Errorf("%d requests at once, want one to each", n)
		}
		w.Run(time.Minute, 100*time.Millisecond)
		w.Expect(id, map[string]activity.State{"https://stumbles.example/1": activity.Delivered, "https://fine.example/1": activity.Delivered})
		var at []time.Time
		for _, r := range w.Servers.Got() {
			if r.Inbox == "https://stumbles.example/1" {
				at = append(at, r.At)
			}
		}
		if len(at) != 3 {
			t.Fatalf("%d tries", len(at))
		}
		for i, mean := range []time.Duration{5 * time.Second, 10 * time.Second} {
			if wait := at[i+1].Sub(at[i]); (wait - mean).Abs() > mean/5+time.Second {
				t.Errorf("wait %d was %s, want about %s", i, wait, mean)
			}
		}
		w.Quiet()
	})
}

// TestWhatIsSplitOffTwiceIsNotDroppedByTheQueue: the message of a target that was split off is
// consumed, and within five minutes the same target is split off again, because the worker of
// its chunk died before it recorded anything.
func TestWhatIsSplitOffTwiceIsNotDroppedByTheQueue(t *testing.T) {
	w := world.New(t, world.Options{QueueType: queue.FIFO})
	q := w.Engine.Queue(queue.Normal)
	a := w.Activity("Create")
	w.Servers.Script("stumbles.example", world.Then(2, world.Answers(500), nil))
	id := w.Send(a, "https://stumbles.example/1", "https://fine.example/1")
	config := w.Config()
	config.Ledger = forgetful{config.Ledger}
	first := receive(t, w, queue.Normal)
	if _, err := deliver.New(config).Handle(t.Context(), queue.Normal, first); err != nil {
		t.Fatal(err)
	}
	// The message that was split off is gone, as if a worker had finished with it.
	got, err := q.Receive(t.Context(), queue.ReceiveOptions{Max: 10})
	if err != nil || len(got) != 1 {
		t.Fatalf("%d messages were split off, %v", len(got), err)
	}
	if err := q.Delete(t.Context(), got[0].Handle); err != nil {
		t.Fatal(err)
	}
	w.Run(4*time.Minute, time.Second)
	w.Expect(id, map[string]activity.State{"https://stumbles.example/1": activity.Delivered, "https://fine.example/1": activity.Delivered})
	w.Quiet()
}

// TestAQueueThatDoesNotBringMessagesBackGetsCopies: a queue says by its capabilities whether a
// message that is not done comes back by itself.
func TestAQueueThatDoesNotBringMessagesBackGetsCopies(t *testing.T) {
	w := world.New(t, world.Options{})
	w.Servers.Script("stumbles.example", world.Then(3, world.Answers(500), nil))
	id := w.Send(w.Activity("Create"), "https://stumbles.example/1")
	config := w.Config()
	once := &forgets{Queue: config.Queues(queue.Normal)}
	config.Queues = func(queue.Name) deliver.Queue { return once }
	engine := deliver.New(config)
	for range 4 { // a chunk, whose target is split off, and that target
		if back, err := engine.Handle(t.Context(), queue.Normal, receive(t, w, queue.Normal)); err != nil || len(back) != 0 {
			t.Fatalf("%d messages are to come back, %v", len(back), err)
		}
		w.Clock.Advance(time.Minute)
	}
	w.Expect(id, map[string]activity.State{"https://stumbles.example/1": activity.Delivered})
	if len(once.sent) != 2 {
		t.Fatalf("%d copies, want one for each failure of the target", len(once.sent))
	}
	for i, mean := range []time.Duration{10 * time.Second, 20 * time.Second} {
		if wait := once.sent[i].Delay; (wait - mean).Abs() > mean/5+time.Second {
			t.Errorf("copy %d is delayed by %s, want about %s", i, wait, mean)
		}
	}
}

// forgets is a queue on which a message that was received is gone.
type forgets struct {
	deliver.Queue
	mu   sync.Mutex
	sent []queue.Message
}

func (q *forgets) Capabilities() queue.Capabilities {
	c := q.Queue.Capabilities()
	c.NativeRetrial = false
	return c
}

func (q *forgets) Send(ctx context.Context, m queue.Message) error {
	q.mu.Lock()
	q.sent = append(q.sent, m)
	q.mu.Unlock()
	return q.Queue.Send(ctx, m)
}

// forgetful is a ledger that cannot be written when a unit ends.
type forgetful struct{ ledger.Store }

var errForgetful = errors.New("the table is down")

func (forgetful) Record(context.Context, *ledger.Claim, []ledger.Recipient, bool) error {
	return errForgetful
}

// TestCostOfARetryByTypeOfQueue: docs/costs.md has these figures.
func TestCostOfARetryByTypeOfQueue(t *testing.T) {
	used := map[queue.Type]int{}
	onBothTypes(t, func(t *testing.T, typ queue.Type) {
		count := func(failures int) int {
			p := faults.NewPlan()
			w := world.New(t, world.Options{QueueType: typ, Plan: p})
			w.Servers.Script("stumbles.example", world.Then(failures, world.Answers(500), nil))
			w.Send(w.Activity("Create"), "https://stumbles.example/1")
			w.Run(time.Minute, 100*time.Millisecond)
			w.Quiet()
			// Each message that is settled was received.
			settled := requests(p, "normal", "Delete", 1) + requests(p, "normal", "ChangeVisibility", 1)
			return requests(p, "normal", "SendBatch", 10) + requests(p, "normal", "Send", 1) + 2*settled
		}
		none := count(0)
		first, second := count(1)-none, count(2)-none
		t.Logf("the first retry takes %d SQS requests, the next %d", first, second-first)
		used[typ] = first
		if second-first != 2 {
			t.Errorf("the second retry took %d SQS requests, want a change of visibility and a receive", second-first)
		}
	})
	if used[queue.Standard] != 3 || used[queue.FIFO] != 5 {
		t.Errorf("the first retry took %v SQS requests, want 3 and 5", used)
	}
}
