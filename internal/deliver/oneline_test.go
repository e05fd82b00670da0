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

// A host's deliveries wait for their turns at the bounded cost of a few receives each, whatever it
// answers and however slowly, and the line never stands empty. With half of its budget spent, the
// host gets one attempt at a time.
func TestWhatWaitsInLineForASlowHostIsReceivedAFewTimes(t *testing.T) {
	for name, c := range map[string]struct {
		recipients, inVain int
		each               time.Duration // of the attempts that are made at a time
	}{
		"one at a time": {recipients: 600, inVain: 15, each: 14 * time.Second},
		"several":       {recipients: 1200, each: 14 * time.Second / 6},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var attempts, receives atomic.Int64
				refuses := func(context.Context, activity.Activity) protocol.Attempt {
					return func(ctx context.Context, _ activity.Target, _ int) outcome.Outcome {
						protocol.Signed(ctx)
						if attempts.Add(1) <= int64(c.inVain) {
							return world.Status(400)
						}
						time.Sleep(14 * time.Second) // virtual
						return world.Status(404)
					}
				}
				w := world.New(t, world.Options{Engine: engines.Maps(), Now: time.Now, Protocol: world.SenderFunc(refuses), Limits: deliver.Limits{Quiet: time.Second}})
				var to []string
				for i := range c.recipients {
					to = append(to, fmt.Sprintf("https://slow.example/%d", i))
				}
				id := w.Send(w.Activity("Create"), to...)
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				m := w.Mapping(queue.Normal)
				m.Queue, m.Ready = received{w.Engine.Queue(queue.Normal), &receives}, w.Deliver.Ready
				wg.Go(func() { m.Run(ctx) })
				time.Sleep(time.Duration(c.recipients) * c.each * 5 / 4)
				cancel()
				wg.Wait()
				waiting := 0
				for _, r := range w.States(id) {
					if r.State != activity.Failed {
						waiting++
					}
				}
				if waiting > 0 {
					t.Errorf("%d deliveries wait after the time of all attempts", waiting)
				}
				t.Logf("%.2f receives each", float64(receives.Load())/float64(c.recipients))
				if receives.Load() > 3*int64(c.recipients) {
					t.Errorf("%d receives of %d deliveries, at most 3 each", receives.Load(), c.recipients)
				}
			})
		})
	}
}
