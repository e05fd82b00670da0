package deliver_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/deliver"
	"fedpost/internal/engine/queue"
	"fedpost/internal/protocol"
	"fedpost/internal/testkit/engines"
	"fedpost/internal/testkit/world"
)

// received is a queue that counts the messages that it hands out.
type received struct {
	queue.Queue
	n *atomic.Int64
}

func (q received) Receive(ctx context.Context, o queue.ReceiveOptions) ([]queue.Received, error) {
	ms, err := q.Queue.Receive(ctx, o)
	q.n.Add(int64(len(ms)))
	return ms, err
}

// A host that has half of its budget spent gets one attempt at a time. Whatever it answers then, and
// however slowly, its deliveries wait for their turns at the bounded cost of a few receives each.
func TestWhatWaitsInLineForASlowHostIsReceivedAFewTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 600
		var attempts, receives atomic.Int64
		refuses := func(context.Context, activity.Activity) protocol.Attempt {
			return func(ctx context.Context, _ activity.Target, _ int) outcome.Outcome {
				protocol.Signed(ctx)
				if attempts.Add(1) <= 15 {
					return world.Status(400)
				}
				time.Sleep(14 * time.Second) // virtual
				return world.Status(404)
			}
		}
		w := world.New(t, world.Options{Engine: engines.Maps(), Now: time.Now, Protocol: world.SenderFunc(refuses), Limits: deliver.Limits{Quiet: time.Second}})
		var to []string
		for i := range n {
			to = append(to, fmt.Sprintf("https://slow.example/%d", i))
		}
		id := w.Send(w.Activity("Create"), to...)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		m := w.Mapping(queue.Normal)
		m.Queue, m.Ready = received{w.Engine.Queue(queue.Normal), &receives}, w.Deliver.Ready
		wg.Go(func() { m.Run(ctx) })
		time.Sleep((n + 60) * 14 * time.Second)
		cancel()
		wg.Wait()
		for inbox, r := range w.States(id) {
			if r.State != activity.Failed {
				t.Fatalf("%s is %s after the time of all attempts", inbox, r.State)
			}
		}
		t.Logf("%.2f receives each", float64(receives.Load())/n)
		if receives.Load() > 3*n {
			t.Errorf("%d receives of %d deliveries, at most 3 each", receives.Load(), n)
		}
	})
}
