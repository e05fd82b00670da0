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
	"fedpost/internal/protocol"
	"fedpost/internal/testkit/engines"
	"fedpost/internal/testkit/long"
	"fedpost/internal/testkit/world"
)

// TestAnActorWhoSendsMuchHoldsUpNoOther: thousands of activities of one actor wait, on the
// queue and, as many as there are places, in memory. 15 s later others send.
func TestAnActorWhoSendsMuchHoldsUpNoOther(t *testing.T) {
	for _, e := range []engines.Engine{engines.Maps(), engines.Embedded()} {
		t.Run(e.Name, func(t *testing.T) {
			if e.Name == engines.Maps().Name {
				long.Only(t, "the engine of maps looks at all messages of a queue for each receive")
			}
			synctest.Test(t, func(t *testing.T) { beginsAtOnce(t, e) })
		})
	}
}

func beginsAtOnce(t *testing.T, e engines.Engine) {
	const patience, chunk, places = 15 * time.Second, 50, 96
	flood := long.Pick(1_000, 10_000)
	var mu sync.Mutex
	var began []time.Duration // of the activities of others
	start := time.Now()
	answers := func(_ context.Context, a activity.Activity) protocol.Attempt {
		return func(context.Context, activity.Target, int) outcome.Outcome {
			if !strings.HasPrefix(a.KeyID, "https://much.example/") {
				mu.Lock()
				began = append(began, time.Since(start))
				mu.Unlock()
			}
			time.Sleep(500 * time.Millisecond) // virtual
			return world.Status(202)
		}
	}
	w := world.New(t, world.Options{
		Engine: e, Now: time.Now, Protocol: world.SenderFunc(answers), QueueType: queue.Fair,
		Limits: deliver.Limits{PerQueue: places, Quiet: time.Second},
	})
	send := func(key string, n int) {
		to := make([]string, chunk)
		for i := range to {
			to[i] = fmt.Sprintf("https://host%d.example/%d", (n*chunk+i)%400, n)
		}
		a := w.Activity("Create")
		a.KeyID = key
		w.Send(a, to...)
	}
	for n := range flood {
		send("https://much.example/u#main-key", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	m := w.Mapping(queue.Normal)
	m.Messages = places * local.Messages / local.PerQueue
	wg.Go(func() { m.Run(ctx) })
	time.Sleep(patience) // virtual
	const others = 3
	for n := range others {
		send(fmt.Sprintf("https://little%d.example/u#main-key", n), n)
	}
	time.Sleep(5 * time.Second) // virtual
	if d, err := w.Engine.Queue(queue.Normal).Depth(ctx); err != nil || d.Visible == 0 {
		t.Errorf("the queue has %+v, %v: nothing waits", d, err)
	}
	cancel()
	mu.Lock()
	n := len(began)
	if n == 0 || began[0]-patience > 5*time.Second {
		t.Errorf("%d deliveries of others have begun, want the first of %d within 5 s", n, others*chunk)
	} else {
		t.Logf("%d of %d deliveries of others have begun 5 s after their enqueue, the first after %s", n, others*chunk, began[0]-patience)
	}
	mu.Unlock()
	wg.Wait()
}
