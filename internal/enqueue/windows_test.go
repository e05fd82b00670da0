package enqueue_test

import (
	"errors"
	"testing"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/enqueue"
	"fedpost/internal/enqueue/dedup"
	"fedpost/internal/testkit/engines"
	"fedpost/internal/testkit/faults"
)

// TestAKeyOnTheOrderedQueueHasOneAnswer: with and without a window or a delay
// of its own, in either order, a key stands for one activity. The second call is
// a duplicate or, if it asks for something else, a mismatch.
func TestAKeyOnTheOrderedQueueHasOneAnswer(t *testing.T) {
	onNativeQueues(t, func(t *testing.T, e engines.Engine, on func(*enqueue.Request), name queue.Name) {
		plain, hour := request(on, key("k")), request(on, key("k"), ttl(time.Hour))
		later := request(on, key("k"), delay(time.Minute))
		laterHour := request(on, key("k"), delay(time.Minute), ttl(time.Hour))
		for name, c := range map[string]struct {
			a, b  enqueue.Request
			apart time.Duration
			want  string
		}{
			"none, then 1h":               {plain, hour, time.Second, "duplicate"},
			"1h, then none":               {hour, plain, time.Second, "duplicate"},
			"none, then 1h, next period":  {plain, hour, 4 * time.Minute, "duplicate"},
			"1h, then none, next period":  {hour, plain, 4 * time.Minute, "duplicate"},
			"1h, then none, half an hour": {hour, plain, 30 * time.Minute, "duplicate"},
			"1h, then none, afterwards":   {hour, plain, 2 * time.Hour, "queued"},
			"none, then 1h, afterwards":   {plain, hour, 10 * time.Minute, "queued"},
			"none, then delay":            {plain, later, time.Second, "mismatch"},
			"delay, then none":            {later, plain, time.Second, "mismatch"},
			"delay, then delay and 1h":    {later, laterHour, time.Second, "duplicate"},
			"delay and 1h, then delay":    {laterHour, later, 20 * time.Minute, "duplicate"},
		} {
			t.Run(name, func(t *testing.T) {
				w := newWorldOn(t, e, faults.NewPlan())
				first := w.must(c.a, enqueue.Queued)
				w.wait(c.apart)
				second, err := w.enqueue(c.b)
				var mismatch *dedup.MismatchError
				got := string(second.Status)
				if errors.As(err, &mismatch) {
					got, second.ID = "mismatch", mismatch.ID
				} else if err != nil {
					t.Fatal(err)
				}
				if got != c.want {
					t.Errorf("%s of %s, want %s of %s", got, second.ID, c.want, first)
				}
				if anew := c.want == "queued"; anew && second.ID == first || !anew && second.ID != first {
					t.Errorf("%s of %s; the first activity is %s", got, second.ID, first)
				}
				if c.want == "mismatch" {
					w.must(c.a, enqueue.Duplicate)
				}
				w.comeToRest(time.Hour)
				if n, want := len(ids(w.arrived())), map[bool]int{true: 2, false: 1}[c.want == "queued"]; n != want {
					t.Errorf("%d activities arrived, want %d", n, want)
				}
			})
		}
	})
}

// TestConcurrentCallsOfBothKindsAreOneActivity: before each call that one
// service makes, the other runs from beginning to end.
func TestConcurrentCallsOfBothKindsAreOneActivity(t *testing.T) {
	plain, hour := request(ordered("g"), key("k")), request(ordered("g"), key("k"), ttl(time.Hour))
	for name, c := range map[string][2]enqueue.Request{"a plain call, 1h in it": {plain, hour}, "1h, a plain call in it": {hour, plain}} {
		for at := 1; at <= 7; at++ {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, faults.NewPlan())
				between := &between{at: at}
				between.run = func() {
					_, err := w.enqueue(c[1])
					var held *dedup.HeldError
					if err != nil && !errors.As(err, &held) {
						t.Error(err)
					}
				}
				s := w.caller(between.markers(w.store), between.ledger(w.store), between.queue(w), 42)
				if _, err := s.Enqueue(t.Context(), c[0]); err != nil {
					t.Fatal(err)
				}
				if n := len(ids(w.arrived())); n != 1 {
					t.Errorf("with the other before call %d, %d activities arrived", at, n)
				}
				w.wait(time.Minute)
				for _, r := range c {
					w.must(r, enqueue.Duplicate)
				}
			})
		}
	}
}

// TestAMarkerThatCannotBeReadIsNotTakenForNone: with the closed fallback a key stands for one
// activity, whatever fails. A call that needs no marker of its own still has to know of one.
func TestAMarkerThatCannotBeReadIsNotTakenForNone(t *testing.T) {
	onNativeQueues(t, func(t *testing.T, e engines.Engine, on func(*enqueue.Request), _ queue.Name) {
		w := newWorldOn(t, e, faults.NewPlan(), func(s *settings) { s.dedup.Fallback = dedup.Closed })
		first := w.must(request(on, key("k"), ttl(time.Hour)), enqueue.Queued)
		w.wait(10 * time.Minute)
		w.plan.FailNext("Get")
		if r, err := w.enqueue(request(on, key("k"))); !errors.Is(err, dedup.ErrUnavailable) {
			t.Errorf("the answer is %+v, error %v; want ErrUnavailable", r, err)
		}
		if again := w.must(request(on, key("k")), enqueue.Duplicate); again != first || w.only() != first {
			t.Errorf("a duplicate of %s, want %s", again, first)
		}
	})
}

// TestAWindowThatIsAskedForCountsFromTheCallThatWasSent: a call fails to send, is repeated
// near the end of a FIFO queue's own five minutes, and again after them. The window of five
// minutes counts from the first call's record (docs/decisions.md); one that is asked for, from
// the call that was sent.
func TestAWindowThatIsAskedForCountsFromTheCallThatWasSent(t *testing.T) {
	onNativeQueues(t, func(t *testing.T, e engines.Engine, on func(*enqueue.Request), _ queue.Name) {
		w := newWorldOn(t, e, faults.NewPlan())
		r := request(on, key("k"), ttl(6*time.Minute))
		w.plan.FailNext("Send")
		if res, err := w.enqueue(r); err == nil {
			t.Fatalf("the first call: %+v", res)
		}
		w.wait(4*time.Minute + 59*time.Second)
		res, err := w.enqueue(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, after := range []time.Duration{2 * time.Second, 5 * time.Minute} {
			w.wait(after)
			if again := w.must(r, enqueue.Duplicate); again != res.ID {
				t.Errorf("a duplicate of %s, want %s", again, res.ID)
			}
		}
		w.wait(time.Minute)
		if next := w.must(r, enqueue.Queued); next == res.ID {
			t.Error("after the window the key stands for the same activity")
		}
		if n := len(ids(w.arrived())); n != 2 {
			t.Errorf("%d activities arrived, want 2", n)
		}
	})
}
