package local

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// jump is the smallest step of the machine's clock that Clock ignores. Smaller steps, as of NTP,
// are harmless: every visibility timeout and lease is longer.
const jump = 10 * time.Second

// Clock is the machine's clock without its jumps, for a process that owns its data.
//
// A clock that jumps a day forward would end all waits and every RETRY_GIVE_UP at once; one that
// jumps back would delay leases, retries and messages in flight by a day. Only differences
// between such times matter, so Clock follows elapsed time and small steps. The next process
// begins with the machine's time.
//
// Suspend is not a jump. Only Linux can tell the two apart; elsewhere Clock follows jumps
// forward.
//
// Times that others check, such as the date of a signature, are the machine's (app.Wall).
type Clock struct {
	read func() (wall time.Time, awake time.Duration)
	// asleep is how long the machine was suspended since a fixed time; false: not known.
	asleep func() (time.Duration, bool)
	log    *slog.Logger

	start time.Time
	// ahead is wall minus (start plus time awake) at the last step; jumped is the part of it
	// that Now subtracts.
	ahead, jumped atomic.Int64

	mu    sync.Mutex
	slept time.Duration
}

// NewClock returns a Clock that begins with the machine's time.
func NewClock(log *slog.Logger) *Clock {
	start := time.Now()
	return newClock(func() (time.Time, time.Duration) {
		t := time.Now()
		return t.Round(0), t.Sub(start)
	}, asleep, log)
}

func newClock(read func() (time.Time, time.Duration), asleep func() (time.Duration, bool), log *slog.Logger) *Clock {
	c := &Clock{read: read, asleep: asleep, log: log}
	wall, awake := read()
	c.start = wall.Add(-awake)
	c.slept, _ = asleep()
	return c
}

func (c *Clock) Now() time.Time {
	wall, awake := c.read()
	ahead := wall.Sub(c.start.Add(awake))
	if step := ahead - time.Duration(c.ahead.Load()); step.Abs() >= time.Second {
		c.step(ahead)
	}
	return wall.Add(-time.Duration(c.jumped.Load()))
}

// step handles a change of ahead: a suspend, a small step or a jump.
func (c *Clock) step(ahead time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	step := ahead - time.Duration(c.ahead.Load())
	slept, known := c.asleep()
	if known {
		step -= slept - c.slept
		c.slept = slept
	} else if step > 0 {
		step = 0
	}
	if step.Abs() >= jump {
		c.jumped.Add(int64(step))
		c.log.WarnContext(context.Background(), "the machine's clock has jumped; fedpost ignores the jump until its next start",
			"jump", step.Round(time.Second).String(), "off", time.Duration(c.jumped.Load()).Round(time.Second).String())
	}
	c.ahead.Store(int64(ahead))
}
