package queuetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fedpost/internal/engine/queue"
)

// Clock is moved by hand.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that shows the present.
func NewClock() *Clock { return ClockAt(time.Now().Truncate(time.Millisecond)) }

// ClockAt returns a clock that shows a time.
func ClockAt(t time.Time) *Clock { return &Clock{now: t} }

// Now is the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Keeper is an engine that keeps its messages itself.
type Keeper interface {
	Queue(name queue.Name) queue.Queue
}

// Opener opens an engine on a clock: with the same messages each time, if processes share it.
type Opener func(now func() time.Time, configs map[queue.Name]queue.Config) Keeper

// Kept is the harness of an engine that keeps its messages itself, and which several processes
// may share or not.
func Kept(open Opener, shared bool) Harness {
	const visibility, receives = 2 * time.Second, 3
	c, config := NewClock(), queue.Config{Visibility: visibility, MaxReceives: receives}
	configs := map[queue.Name]queue.Config{queue.Normal: config, queue.Ordered: config}
	e := open(c.Now, configs)
	h := Harness{
		Standard: e.Queue(queue.Normal), FIFO: e.Queue(queue.Ordered),
		Dead: e.Queue(queue.Dead), DeadOrdered: e.Queue(queue.DeadOrdered),
		Visibility: visibility, MaxReceives: receives,
		Advance: c.Advance, Now: c.Now,
	}
	if shared {
		h.Other = func() (standard, fifo queue.Queue) {
			other := open(c.Now, configs)
			return other.Queue(queue.Normal), other.Queue(queue.Ordered)
		}
	}
	return h
}

// SleepThroughNothing moves the clock on at each reading. So a message is still hidden when
// the receiver looks for messages, and visible when the receiver computes how long to sleep.
// One of three tries has to be quick, as the machine may be busy.
func SleepThroughNothing(t *testing.T, open Opener) {
	const step = 10 * time.Millisecond
	var moving atomic.Bool
	c := NewClock()
	e := open(func() time.Time {
		if moving.Load() {
			c.Advance(step)
		}
		return c.Now()
	}, nil)
	for _, name := range []queue.Name{queue.Normal, queue.Ordered} {
		for hidden := step / 2; hidden < 10*step; hidden += step {
			took := time.Hour
			for try := 0; try < 3 && took > 700*time.Millisecond; try++ {
				k := &check{T: t, ctx: t.Context()}
				q, m := e.Queue(name), text("x")
				if name.Ordered() {
					m = ordered("g", fmt.Sprint(hidden, try), "x")
				}
				k.send(q, m)
				k.receiveFor(q, 1, hidden)
				moving.Store(true)
				begun := time.Now()
				got, err := q.Receive(t.Context(), queue.ReceiveOptions{Max: 1, Wait: queue.MaxWait})
				moving.Store(false)
				took = min(took, time.Since(begun))
				if err != nil || len(got) != 1 {
					t.Fatalf("%s, hidden for %s: received %d messages, error %v", name, hidden, len(got), err)
				}
				k.delete(q, got...)
			}
			if took > 700*time.Millisecond {
				t.Errorf("%s, hidden for %s: received after %s", name, hidden, took)
			}
		}
	}
}
