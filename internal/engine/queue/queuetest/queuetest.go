// Package queuetest is the contract of package queue as a suite of tests. Every
// engine runs the suite, so that code built on one engine works on all.
// Where the behaviour of SQS is a surprise, the suite follows SQS.
//
// The suite knows nothing of engines. A server that stands in for SQS may get a
// point wrong. Its harness finds that out by probing the server directly, not
// through the engine under test, and names the case in Lacks; then that case
// alone is skipped, with the reason.
//
// A new test is an entry of the list of its subject (ruleCases, fifoCases, deadLetterCases and
// so on), named after what it shows. It uses the queues of its own harness, moves time with
// Advance only, and says in a failure what came and what was wanted:
//
//	{"DelayedMessageComesWhenItsDelayIsOver", func(c *check) {
//		c.send(c.Standard, queue.Message{Body: "later", Delay: time.Minute})
//		c.Advance(time.Minute)
//		if got := c.receive(c.Standard, 1); got[0].Body != "later" {
//			c.Errorf("received %q, want %q", got[0].Body, "later")
//		}
//	}},
//
// All engines run it from then on: `go test ./internal/engine/sqlite ./internal/testkit/memory`,
// and `.ci/run aws` for SQS.
package queuetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"fedpost/internal/engine/queue"
)

// Harness is what an engine gives to one case: fresh, empty queues.
type Harness struct {
	// Standard and FIFO have the dead letters Dead and DeadOrdered.
	Standard, FIFO, Dead, DeadOrdered queue.Queue
	// Other returns Standard and FIFO as another process has them; nil if there is none, or
	// if it has the same.
	Other func() (standard, fifo queue.Queue)

	// Visibility is the timeout of Standard and FIFO: whole seconds, short if
	// Advance waits in real time, but long enough for a few calls (2 s).
	Visibility time.Duration
	// MaxReceives of Standard and FIFO, 2 or 3.
	MaxReceives int

	// Advance lets d pass: it moves a manual clock or waits.
	Advance func(d time.Duration)
	// Patient is the longest time that Advance can pass, 0 if there is no limit.
	Patient time.Duration
	// Now is the clock of SentAt; time.Now if nil.
	Now func() time.Time
	// Wait is how long a receive waits that checks whether there is a message; 0
	// if the engine sees a message as soon as it is sent.
	Wait time.Duration

	// Lacks returns why the server behind the engine cannot pass the case of that
	// name (see Cases), or "". Nil: the server passes all cases.
	Lacks func(name string) string
}

// Cases lists the names of all cases.
func Cases() []string {
	var names []string
	for _, c := range cases() {
		names = append(names, c.name)
	}
	return names
}

// Run runs the suite. Open is called once per case, and cases run in parallel.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := open(t)
			if h.Lacks != nil {
				if reason := h.Lacks(c.name); reason != "" {
					t.Skipf("the server lacks %s: %s", c.name, reason)
				}
			}
			if h.Now == nil {
				h.Now = time.Now
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute+h.Patient)
			defer cancel()
			c.run(&check{T: t, Harness: h, ctx: ctx})
		})
	}
}

type testCase struct {
	name string
	run  func(*check)
}

func cases() []testCase {
	return slices.Concat(standardCases, visibilityCases, batchCases, ruleCases, fifoCases, dedupCases, deadLetterCases, concurrencyCases)
}

// check is one case that is running.
type check struct {
	*testing.T
	Harness
	ctx context.Context
}

func text(s string) queue.Message { return queue.Message{Body: s} }

func ordered(group, key, body string) queue.Message {
	return queue.Message{Body: body, OrderingKey: group, DeduplicationKey: key}
}

func (c *check) send(q queue.Queue, ms ...queue.Message) {
	c.Helper()
	for _, m := range ms {
		if err := q.Send(c.ctx, m); err != nil {
			c.Fatalf("send %.40q: %v", m.Body, err)
		}
	}
}

// receive returns n messages, in several receives if need be, and hides them for
// longer than any case takes.
func (c *check) receive(q queue.Queue, n int) []queue.Received {
	c.Helper()
	return c.receiveFor(q, n, 10*time.Minute)
}

// receiveFor hides the received messages for the given time; 0: for the queue's own.
func (c *check) receiveFor(q queue.Queue, n int, visibility time.Duration) []queue.Received {
	c.Helper()
	var got []queue.Received
	// SQS may return fewer messages than there are, down to none.
	for empty := 0; len(got) < n && empty < 5; {
		some, err := q.Receive(c.ctx, queue.ReceiveOptions{Max: min(n-len(got), queue.MaxBatch), Wait: c.Wait, Visibility: visibility})
		if err != nil {
			c.Fatalf("receive: %v", err)
		}
		if len(some) == 0 {
			empty++
		}
		got = append(got, some...)
	}
	if len(got) != n {
		c.Fatalf("received %d messages %.200q, want %d", len(got), bodies(got), n)
	}
	return got
}

func (c *check) none(q queue.Queue, why string) {
	c.Helper()
	got, err := q.Receive(c.ctx, queue.ReceiveOptions{Max: queue.MaxBatch, Wait: c.Wait})
	if err != nil {
		c.Fatalf("receive: %v", err)
	}
	if len(got) > 0 {
		c.Fatalf("received %.200q, want nothing: %s", bodies(got), why)
	}
}

func (c *check) delete(q queue.Queue, rs ...queue.Received) {
	c.Helper()
	for _, r := range rs {
		if err := q.Delete(c.ctx, r.Handle); err != nil {
			c.Fatalf("delete %.40q: %v", r.Body, err)
		}
	}
}

// show makes received messages visible at once.
func (c *check) show(q queue.Queue, rs ...queue.Received) {
	c.Helper()
	c.hide(q, 0, rs...)
}

func (c *check) hide(q queue.Queue, d time.Duration, rs ...queue.Received) {
	c.Helper()
	for _, r := range rs {
		if err := q.ChangeVisibility(c.ctx, r.Handle, d); err != nil {
			c.Fatalf("change visibility of %.40q to %s: %v", r.Body, d, err)
		}
	}
}

// wait lets d pass, and skips the case if the harness cannot wait that long.
func (c *check) wait(d time.Duration) {
	c.Helper()
	if c.Patient > 0 && d > c.Patient {
		c.Skipf("needs %s to pass, and here that is real time", d)
	}
	c.Advance(d)
}

func (c *check) bodies(got []queue.Received, want ...string) {
	c.Helper()
	if !slices.Equal(bodies(got), want) {
		c.Fatalf("received %.200q, want %.200q", bodies(got), want)
	}
}

func (c *check) sameBodies(got []queue.Received, want ...string) {
	c.Helper()
	have := slices.Sorted(slices.Values(bodies(got)))
	slices.Sort(want)
	if !slices.Equal(have, want) {
		c.Fatalf("received %.200q in any order, want %.200q", have, want)
	}
}

func (c *check) depth(q queue.Queue, want queue.Depth) {
	c.Helper()
	got, err := q.Depth(c.ctx)
	if err != nil {
		c.Fatalf("depth: %v", err)
	}
	if got != want {
		c.Fatalf("depth is %+v, want %+v", got, want)
	}
}

func bodies(rs []queue.Received) []string {
	var all []string
	for _, r := range rs {
		all = append(all, r.Body)
	}
	return all
}

func numbered(format string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(format, i))
	}
	return all
}
