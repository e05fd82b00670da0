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
		for range 60 { // what found no place comes back
			time.Sleep(5 * time.Second) // virtual
			w.Work()
		}
		// One place of each queue is kept for hosts that have accepted before.
		if most.Load() != 2*(room-1) || total.Load() != 20*invocations {
			t.Errorf("at most %d of %d attempts at once, want %d of %d", most.Load(), total.Load(), 2*(room-1), 20*invocations)
		}
	})
}

// TestAnAttemptThatWaitsHasNoGoroutine has 50 recipients on each of 20 hosts, which take 8 at
// a time. A goroutine takes 8 to 16 KiB of memory, and up had 20,000 recipients under way.
func TestAnAttemptThatWaitsHasNoGoroutine(t *testing.T) {
	const units, each, perHost = 20, 50, 8
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
		w := world.New(t, world.Options{Now: time.Now, Protocol: crowd, Limits: deliver.Limits{PerQueue: units * each, PerHost: perHost}})
		for i := range units {
			var to []string
			for n := range each {
				to = append(to, fmt.Sprintf("https://h%d.example/%d/inbox", i, n))
			}
			w.Send(w.Activity("Create"), to...)
		}
		before := runtime.NumGoroutine()
		wait := pollAll(t, w, units)
		if more := runtime.NumGoroutine() - before; more > (perHost+10)*units {
			t.Errorf("%d goroutines for %d attempts under way and %d that wait", more, perHost*units, (each-perHost)*units)
		}
		close(open)
		wait()
		if total.Load() != units*each {
			t.Errorf("%d of %d attempts were made", total.Load(), units*each)
		}
	})
}

// TestNoMoreIsTakenUpThanFindsAPlaceSoon has 20 messages of 50 recipients for 5 places: only
// the first is claimed before it is through, as more would only take memory.
func TestNoMoreIsTakenUpThanFindsAPlaceSoon(t *testing.T) {
	const units, each = 20, 50
	synctest.Test(t, func(t *testing.T) {
		var prepared, total atomic.Int32
		open := make(chan struct{})
		crowd := world.SenderFunc(func(context.Context, activity.Activity) protocol.Attempt {
			prepared.Add(1)
			return func(context.Context, activity.Target, int) outcome.Outcome {
				<-open
				total.Add(1)
				return world.Status(202)
			}
		})
		w := world.New(t, world.Options{Now: time.Now, Protocol: crowd, Limits: deliver.Limits{PerQueue: 5}})
		for i := range units {
			var to []string
			for n := range each {
				to = append(to, fmt.Sprintf("https://h%d-%d.example/inbox", i, n))
			}
			w.Send(w.Activity("Create"), to...)
		}
		wait := pollAll(t, w, units)
		if prepared.Load() != 1 {
			t.Errorf("%d messages were taken up for 5 places, want 1", prepared.Load())
		}
		close(open)
		wait()
		for range 60 { // what found no place comes back
			time.Sleep(5 * time.Second) // virtual
			w.Work()
		}
		if total.Load() != units*each {
			t.Errorf("%d of %d attempts were made", total.Load(), units*each)
		}
	})
}

// TestAHostThatHangsKeepsNothingFromBeingTakenUp has 50 recipients on a host that hangs: 10
// are tried, 40 wait for the host, and 20 may wait in memory.
func TestAHostThatHangsKeepsNothingFromBeingTakenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var well atomic.Int32
		open := make(chan struct{})
		crowd := world.SenderFunc(func(context.Context, activity.Activity) protocol.Attempt {
			return func(_ context.Context, to activity.Target, _ int) outcome.Outcome {
				if to.Host() == "hangs.example" {
					<-open
				} else {
					well.Add(1)
				}
				return world.Status(202)
			}
		})
		w := world.New(t, world.Options{Now: time.Now, Protocol: crowd, Limits: deliver.Limits{PerQueue: 20}})
		var hanging, others []string
		for n := range 50 {
			hanging = append(hanging, fmt.Sprintf("https://hangs.example/%d/inbox", n))
			others = append(others, fmt.Sprintf("https://h%d.example/inbox", n))
		}
		w.Send(w.Activity("Create"), hanging...)
		w.Send(w.Activity("Create"), others...)
		wait := pollAll(t, w, 2)
		time.Sleep(2 * time.Second) // virtual: by now the host has shown that it hangs
		if well.Load() != 50 {
			t.Errorf("%d of 50 deliveries were made beside a host that hangs", well.Load())
		}
		close(open)
		wait()
	})
}

// pollAll has messages of the normal queue worked on, each by an invocation of its own, until
// nothing goes on without the caller. wait waits for their end.
func pollAll(t *testing.T, w *world.World, messages int) (wait func()) {
	var wg sync.WaitGroup
	for range messages {
		m := w.Mapping(queue.Normal)
		m.BatchSize = 1
		wg.Go(func() {
			if _, err := m.PollOnce(t.Context()); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
	}
	return wg.Wait
}

// TestAHostThatHasAcceptedNothingGetsFewAtOnceUntilItDoes: its budget of 50 requests a day
// would be spent by what is under way before the first answer comes.
func TestAHostThatHasAcceptedNothingGetsFewAtOnceUntilItDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var under, total atomic.Int32
		first := make(chan struct{})
		rest := make(chan struct{})
		crowd := world.SenderFunc(func(context.Context, activity.Activity) protocol.Attempt {
			return func(context.Context, activity.Target, int) outcome.Outcome {
				if under.Add(1) == 1 {
					<-first
				} else {
					<-rest
				}
				total.Add(1)
				return world.Status(202)
			}
		})
		const messages = 50
		w := world.New(t, world.Options{Now: time.Now, Protocol: crowd, Limits: deliver.Limits{PerQueue: 400}})
		for i := range messages {
			w.Send(w.Activity("Create"), fmt.Sprintf("https://new.example/%d/inbox", i))
		}
		wait := pollAll(t, w, messages)
		if n := under.Load(); n != 6 {
			t.Errorf("%d at once to a host that has accepted nothing, want 6", n)
		}
		close(first)
		synctest.Wait()
		if n := under.Load(); n != 8 {
			t.Errorf("%d have begun when it has accepted one, want the place of that one and one more taken: 8", n)
		}
		close(rest)
		wait()
		if n := total.Load(); n != messages {
			t.Errorf("%d of %d were made", n, messages)
		}
	})
}
