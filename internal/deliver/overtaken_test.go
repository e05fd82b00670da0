package deliver_test

import (
	"context"
	"fmt"
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

// TestARetryIsNotOvertakenForLong: 400 retries come at once, to hosts that all hang, and
// five more come every second. All places together make 400 of them in 80 s,
// if every batch is full.
func TestARetryIsNotOvertakenForLong(t *testing.T) {
	long.NotUnderRace(t)
	t.Parallel()
	const first, more, longest = 400, 5, 150 * time.Second
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		tried := map[string]time.Time{}
		hang := func(context.Context, activity.Activity) protocol.Attempt {
			return func(ctx context.Context, to activity.Target, _ int) outcome.Outcome {
				mu.Lock()
				if tried[to.Host()].IsZero() {
					tried[to.Host()] = time.Now()
				}
				mu.Unlock()
				return world.Hang(ctx)
			}
		}
		w := world.New(t, world.Options{Now: time.Now, Protocol: world.SenderFunc(hang), Limits: deliver.Limits{
			PerQueue: local.PerQueue,
		}})
		retry := func(host string) {
			a := w.Activity("Create")
			body := world.Encode(t, message.Message{Activity: &a, Deliver: &message.Delivery{
				Targets: []activity.Target{{Inbox: "https://" + host + "/inbox", Stands: 1}}, Attempts: 1,
			}})
			if err := w.Engine.Queue(queue.Normal).Send(t.Context(), queue.Message{Body: body}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range first {
			retry(fmt.Sprintf("first%d.example", i))
		}
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		m := w.Mapping(queue.Normal)
		wg.Go(func() { m.Run(ctx) })
		for second := range 100 {
			for i := range more {
				retry(fmt.Sprintf("later%d-%d.example", second, i))
			}
			time.Sleep(time.Second) // virtual
		}
		time.Sleep(3 * time.Minute) // virtual
		cancel()
		wg.Wait()
		var waits time.Duration
		for i := range first {
			host := fmt.Sprintf("first%d.example", i)
			if tried[host].IsZero() {
				t.Fatalf("%s was never tried", host)
			}
			waits = max(waits, tried[host].Sub(began))
		}
		t.Logf("the last of the first %d retries was made after %s", first, waits)
		if waits > longest {
			t.Errorf("the last of the first %d retries was made after %s, at most %s", first, waits, longest)
		}
	})
}
