package queuetest

import (
	"context"
	"sync"
	"time"

	"fedpost/internal/engine/queue"
)

// Clock is moved by hand.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that shows the present.
func NewClock() *Clock { return &Clock{now: time.Now().Truncate(time.Millisecond)} }

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
	Redrive(ctx context.Context, dead queue.Name) (int, error)
}

// Opener opens an engine on a clock, on the same messages each time where several processes
// can share them.
type Opener func(now func() time.Time, configs map[queue.Name]queue.Config) Keeper

// Kept is the harness of an engine that keeps its messages itself, on a clock of its own.
func Kept(open Opener) Harness {
	const visibility, receives = 2 * time.Second, 3
	c, config := NewClock(), queue.Config{Visibility: visibility, MaxReceives: receives}
	configs := map[queue.Name]queue.Config{queue.Normal: config, queue.Ordered: config}
	e := open(c.Now, configs)
	return Harness{
		Standard: e.Queue(queue.Normal), FIFO: e.Queue(queue.Ordered),
		Dead: e.Queue(queue.Dead), DeadOrdered: e.Queue(queue.DeadOrdered),
		Visibility: visibility, MaxReceives: receives,
		Advance: c.Advance, Now: c.Now,
		Redrive: func(ctx context.Context, dead queue.Name) error {
			_, err := e.Redrive(ctx, dead)
			return err
		},
	}
}
