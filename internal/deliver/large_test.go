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
	"fedpost/internal/deliver"
	"fedpost/internal/engine/queue"
	"fedpost/internal/testkit/engines"
	"fedpost/internal/testkit/world"
)

// weighed is a queue that knows how many bytes of its messages are with their receivers.
type weighed struct {
	queue.Queue
	mu      sync.Mutex
	under   map[string]int // by handle
	handled int            // times that a message was handed out
}

func (q *weighed) Receive(ctx context.Context, o queue.ReceiveOptions) ([]queue.Received, error) {
	got, err := q.Queue.Receive(ctx, o)
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range got {
		q.under[m.Handle] = len(m.Body)
		q.handled++
	}
	return got, err
}

func (q *weighed) settle(handle string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.under, handle)
}

func (q *weighed) Delete(ctx context.Context, handle string) error {
	q.settle(handle)
	return q.Queue.Delete(ctx, handle)
}

func (q *weighed) ChangeVisibility(ctx context.Context, handle string, d time.Duration) error {
	q.settle(handle)
	return q.Queue.ChangeVisibility(ctx, handle, d)
}

func (q *weighed) bytes() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, bytes := range q.under {
		n += bytes
	}
	return n
}

// TestLargeActivitiesTakeABoundedPartOfMemoryAndHoldUpNoOther: theirs are servers that hang, so
// that each has its memory for 15 seconds. Without a bound a process holds 2,304 messages of each
// queue, whatever their size.
func TestLargeActivitiesTakeABoundedPartOfMemoryAndHoldUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places, large, size = 50, 40, 300_000
		w := world.New(t, world.Options{
			Engine: engines.Maps(), Now: time.Now, Limits: deliver.Limits{PerQueue: places, Quiet: time.Second},
		})
		hangs := func(world.Request, int) outcome.Outcome {
			time.Sleep(15 * time.Second) // virtual
			return outcome.Outcome{Class: outcome.Retry, Err: "timeout", Reason: outcome.Timeout}
		}
		send := func(sender, host string, bytes int) activity.ID {
			a := w.Activity("Create")
			a.KeyID, a.Body = sender+"#key", `{"x":"`+strings.Repeat("x", bytes)+`"}`
			return w.Send(a, "https://"+host+"/1")
		}
		q := &weighed{Queue: w.Engine.Queue(queue.Normal), under: map[string]int{}}
		c := w.Config()
		c.Queues = func(queue.Name) deliver.Queue { return q }
		w.Deliver = deliver.New(c)
		const well = 20
		for i := range well { // so that these servers are known to be well
			send("https://good.example/actor", fmt.Sprintf("well%d.example", i), 100)
		}
		w.Work()
		warm := len(w.Servers.Got())
		for i := range large {
			host := fmt.Sprintf("hangs%d.example", i)
			w.Servers.Script(host, hangs)
			send("https://bad.example/actor", host, size)
		}
		m := w.Mapping(queue.Normal)
		m.Queue, m.Messages = q, 3*places
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { m.Run(ctx) })
		most := 0
		look := func(longest time.Duration) {
			for range int(longest / (100 * time.Millisecond)) {
				time.Sleep(100 * time.Millisecond) // virtual
				synctest.Wait()                    // what is handed back at once takes no memory for long
				most = max(most, q.bytes())
			}
		}
		look(3 * time.Second)
		sent := time.Now()
		others := map[activity.ID]string{}
		for i := range well {
			others[send(fmt.Sprintf("https://good%d.example/actor", i), fmt.Sprintf("well%d.example", i), 100)] = "small"
		}
		others[send("https://good.example/actor", "well0.example", size)] = "large"
		look(8 * time.Minute)
		cancel()
		done.Wait()
		began := map[activity.ID]time.Duration{}
		for _, r := range w.Servers.Got()[warm:] {
			if _, known := began[r.Activity.ID]; !known {
				began[r.Activity.ID] = r.At.Sub(sent)
			}
		}
		for id, kind := range others {
			if at, ok := began[id]; !ok || at > 3*time.Second {
				t.Errorf("a %s activity to a server that is well began after %s (ever: %t), want 3 s at most", kind, at, ok)
			}
		}
		if want := places * 96 << 10 * 3 / 4; most > want {
			t.Errorf("%d bytes of messages were in memory at once, want at most %d", most, want)
		}
		if len(began) != large+len(others) {
			t.Errorf("%d activities have begun, want all %d", len(began), large+len(others))
		}
		t.Logf("%d bytes at most, %d receives for %d messages", most, q.handled, large+len(others))
	})
}
