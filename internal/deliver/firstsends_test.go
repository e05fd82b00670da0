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
	"fedpost/internal/app/local"
	"fedpost/internal/deliver"
	"fedpost/internal/engine/queue"
	"fedpost/internal/message"
	"fedpost/internal/protocol"
	"fedpost/internal/testkit/long"
	"fedpost/internal/testkit/world"
)

// TestFirstSendsDoNotWaitBehindRetries: 500 retries to 90 hosts that hang come
// back at the same time, more than all invocations of the process can hold. An
// activity that is sent a moment later reaches its healthy hosts as if the retries
// were not there, and each retry comes to its end all the same.
func TestFirstSendsDoNotWaitBehindRetries(t *testing.T) {
	const retries, hanging, healthy = 500, 90, 100
	long.NotUnderRace(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var last time.Time
		reached, tried := 0, map[string]bool{}
		servers := func(_ context.Context, a activity.Activity) protocol.Attempt {
			return func(ctx context.Context, to activity.Target, _ int) outcome.Outcome {
				if strings.HasPrefix(to.Host(), "hangs") {
					mu.Lock()
					tried[to.Inbox] = true
					mu.Unlock()
					return world.Hang(ctx)
				}
				time.Sleep(200 * time.Millisecond) // virtual
				mu.Lock()
				defer mu.Unlock()
				reached++
				last = time.Now()
				return world.Status(202)
			}
		}
		w := world.New(t, world.Options{Now: time.Now, Protocol: world.SenderFunc(servers), Limits: deliver.Limits{
			PerQueue: local.PerQueue,
		}})
		for i := range retries {
			a := w.Activity("Create")
			inbox := fmt.Sprintf("https://hangs%d.example/u/%d/inbox", i%hanging, i)
			body := world.Encode(t, message.Message{Activity: &a, Deliver: &message.Delivery{
				Targets: []activity.Target{{Inbox: inbox, Stands: 1}}, Attempts: 1,
			}})
			if err := w.Engine.Queue(queue.Normal).Send(t.Context(), queue.Message{Body: body}); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		m := w.Mapping(queue.Normal)
		wg.Go(func() { m.Run(ctx) })
		time.Sleep(time.Second) // virtual: the retries are in every invocation that takes them
		sent := time.Now()
		var to []string
		for i := range healthy {
			to = append(to, fmt.Sprintf("https://h%d.example/inbox", i))
		}
		w.Send(w.Activity("Create"), to...)
		time.Sleep(time.Minute) // virtual
		mu.Lock()
		if took := last.Sub(sent); reached != healthy || took > time.Second {
			t.Errorf("the activity took %s to reach %d of %d healthy hosts", took, reached, healthy)
		}
		mu.Unlock()
		time.Sleep(9 * time.Minute) // virtual
		cancel()
		wg.Wait()
		if d, err := w.Engine.Queue(queue.Normal).Depth(t.Context()); err != nil || d != (queue.Depth{}) {
			t.Errorf("after 10 minutes the queue still has %+v, %v", d, err)
		}
		if len(tried) < hanging {
			t.Errorf("%d of %d hanging hosts were tried", len(tried), hanging)
		}
	})
}
