package deliver_test

import (
	"context"
	"fmt"
	"runtime"
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
	"fedpost/internal/testkit/world"
)

// TestInvocationsOfOneQueueShareTheProcesssRoom runs several invocations of two
// queues side by side: each queue has its own room, however many invocations.
func TestInvocationsOfOneQueueShareTheProcesssRoom(t *testing.T) {
	const room, invocations = 5, 4
	synctest.Test(t, func(t *testing.T) {
		var now, most, total atomic.Int32
		crowd := world.SenderFunc(func(context.Context, activity.Activity) protocol.Attempt {
			return func(context.Context, activity.Target, int) outcome.Outcome {
				n := now.Add(1)
				defer now.Add(-1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				total.Add(1)
				<-time.After(time.Second) // virtual
				return world.Status(202)
			}
		})
		w := world.New(t, world.Options{Now: time.Now, Protocol: crowd, Limits: deliver.Limits{PerQueue: room}})
		for i := range 2 * invocations {
			var to []string
			for n := range 10 {
				to = append(to, fmt.Sprintf("https://h%d-%d.example/inbox", i, n))
			}
			a := w.Activity("Create")
			if a.Priority = activity.Normal; i%2 == 0 {
				a.Priority = activity.High
			}
			w.Send(a, to...)
		}
		var wg sync.WaitGroup
		for i := range 2 * invocations {
			m := w.Mapping(queue.Normal)
			if i%2 == 0 {
				m = w.Mapping(queue.High)
			}
			m.BatchSize = 1
			wg.Go(func() {
				if _, err := m.PollOnce(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if most.Load() != 2*room || total.Load() != 20*invocations {
			t.Errorf("at most %d of %d attempts at once, want %d", most.Load(), total.Load(), 2*room)
		}
	})
}

// TestAnAttemptThatWaitsHasNoGoroutine has 1,000 recipients wait for 5 places. A goroutine
// takes 8 to 16 KiB of memory, and up has 20,000 recipients under way.
func TestAnAttemptThatWaitsHasNoGoroutine(t *testing.T) {
	const room, units, each = 5, 20, 50
	synctest.Test(t, func(t *testing.T) {
		var total atomic.Int32
		open := make(chan struct{})
		crowd := world.SenderFunc(func(context.Context, activity.Activity) protocol.Attempt {
			return func(context.Context, activity.Target, int) outcome.Outcome {
				<-open
				total.Add(1)
				return world.Status(202)
			}
		})
		w := world.New(t, world.Options{Now: time.Now, Protocol: crowd, Limits: deliver.Limits{PerQueue: room}})
		for i := range units {
			var to []string
			for n := range each {
				to = append(to, fmt.Sprintf("https://h%d-%d.example/inbox", i, n))
			}
			w.Send(w.Activity("Create"), to...)
		}
		before := runtime.NumGoroutine()
		var wg sync.WaitGroup
		for range units {
			m := w.Mapping(queue.Normal)
			m.BatchSize = 1
			wg.Go(func() {
				if _, err := m.PollOnce(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if more := runtime.NumGoroutine() - before; more > 10*units {
			t.Errorf("%d goroutines for %d attempts under way and %d that wait", more, room, units*each-room)
		}
		close(open)
		wg.Wait()
		if total.Load() != units*each {
			t.Errorf("%d of %d attempts were made", total.Load(), units*each)
		}
	})
}
