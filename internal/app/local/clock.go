package local

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// jump is the smallest step of the machine's clock that Clock leaves out. Smaller ones, such
// as NTP makes, harm nothing: no visibility timeout and no lease is as short.
const jump = 10 * time.Second

// Clock is the machine's clock without its jumps, for a process that owns its data.
//
// All that waits in the data has a time at which its wait is over. A machine's clock that
// jumps a day forward would end every wait and every RETRY_GIVE_UP at once; one that jumps
// back would leave messages that are in flight, leases and retries waiting for a day longer.
// Only the differences between such times matter, so Clock goes on as if nothing had
// happened: it follows the time that passes, and small steps. The process that starts next
// begins with the machine's time.
//
// Time that the machine sleeps (suspend) is no jump, as it has passed. Where the system does
// not tell sleep from a jump forward (other than Linux), a jump forward is followed.
//
// Times that others judge, such as the date of a signature, are the machine's (app.Wall).
type Clock struct {
	read func() (wall time.Time, awake time.Duration)
	// asleep is how long the machine has slept since some moment of the past. It reports
	// false where the system does not tell.
	asleep func() (time.Duration, bool)
	log    *slog.Logger

	start time.Time
	// ahead is how far wall is before start plus the time awake, as Now knows it already;
	// jumped is the part of it that Now leaves out.
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

// Now is the time.
func (c *Clock) Now() time.Time {
	wall, awake := c.read()
	ahead := wall.Sub(c.start.Add(awake))
	if step := ahead - time.Duration(c.ahead.Load()); step.Abs() >= time.Second {
		c.step(ahead)
	}
	return wall.Add(-time.Duration(c.jumped.Load()))
}

// step judges why the wall clock is ahead by another duration than before.
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
		c.log.WarnContext(context.Background(), "the machine's clock has jumped; fedpost goes on by the time that has passed, and takes over the machine's time when it starts again",
			"jump", step.Round(time.Second).String(), "off", time.Duration(c.jumped.Load()).Round(time.Second).String())
	}
	c.ahead.Store(int64(ahead))
}
