package deliver_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/deliver"
	"fedpost/internal/engine/queue"
	"fedpost/internal/testkit/world"
)

// picky is a queue that will never take deliveries to some host, and takes none
// of a group after one that it has not taken.
type picky struct{ deliver.Queue }

func (q picky) SendBatch(ctx context.Context, ms []queue.Message) []error {
	errs, broken := make([]error, len(ms)), map[string]bool{}
	for i, m := range ms {
		switch {
		case strings.Contains(m.Body, "refused.example"):
			errs[i] = queue.ErrInvalid
		case m.OrderingKey != "" && broken[m.OrderingKey]:
			errs[i] = queue.ErrNotSent
		default:
			errs[i] = q.Queue.SendBatch(ctx, []queue.Message{m})[0]
		}
		broken[m.OrderingKey] = errs[i] != nil
	}
	return errs
}

// TestAFanOutGivesUpWhatNoQueueTakes: with records and dead letters, and the
// other chunks are delivered.
func TestAFanOutGivesUpWhatNoQueueTakes(t *testing.T) {
	for _, name := range []queue.Name{queue.Normal, queue.Ordered} {
		t.Run(string(name), func(t *testing.T) {
			w := world.New(t, world.Options{})
			config := w.Config()
			config.Queues = func(n queue.Name) deliver.Queue { return picky{w.Engine.Queue(n)} }
			w.Deliver = deliver.New(config)
			to := inboxes(120)
			to[7] = "https://refused.example/inbox"
			a := w.Activity("Create")
			if name.Ordered() {
				a.OrderingKey = "k"
			}
			w.Send(a, to...)
			w.Run(time.Minute, time.Second)
			dead, size := 1, 1
			if !name.Ordered() {
				dead, size = 50, 50 // the chunk
			}
			for i, in := range to {
				want := activity.Delivered
				if i/size == 7/size {
					want = activity.Dead
				}
				if got := w.States(a.ID)[in].State; got != want {
					t.Fatalf("%s is %q, want %q", in, got, want)
				}
			}
			if got := len(w.DeadLetters.Deaths); got != dead {
				t.Errorf("%d dead letters, want %d", got, dead)
			}
			w.Quiet()
		})
	}
}
