package world

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"fedpost/internal/app/local"
	"fedpost/internal/app/topology"
	"fedpost/internal/engine/queue"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
)

// Mapping is the event source of a queue.
func (w *World) Mapping(n queue.Name) local.Mapping {
	return local.Mapping{
		Queue: polled{w.Engine.Queue(n), w.queues(n)}, Name: n, BatchSize: w.BatchSize, Messages: local.Messages, Timeout: time.Minute,
		Handler: w.Deliver.Handle, Log: slog.New(slog.DiscardHandler),
	}
}

// Poll receives from a queue once, and has the engine work on it.
func (w *World) Poll(n queue.Name) int {
	w.T.Helper()
	got, err := w.Mapping(n).PollOnce(context.Background())
	if err != nil && !strings.Contains(err.Error(), "injected") {
		w.T.Fatalf("poll %s: %v", n, err)
	}
	w.reincarnate()
	return got
}

// polled receives without the plan, because breaking an empty poll shows nothing, and
// makes the calls that settle a message under the plan.
type polled struct {
	queue.Queue
	settle queue.Queue
}

// Delete implements queue.Queue.
func (p polled) Delete(ctx context.Context, handle string) error { return p.settle.Delete(ctx, handle) }

// reincarnate is called after a run of a function. It notes the deliveries that the run
// has left in the gap and, if the plan has let the process die, starts it again.
func (w *World) reincarnate() {
	if w.plan == nil {
		return
	}
	dead := w.plan.Dead()
	w.plan.Revive()
	w.noteGap()
	if dead {
		w.Restart()
	}
}

// Work polls until nothing is visible on any queue.
func (w *World) Work() {
	w.T.Helper()
	for range 100_000 {
		n := 0
		for _, name := range topology.Sources {
			if w.depth(name).Visible > 0 {
				n += w.Poll(name)
			}
		}
		if n == 0 {
			return
		}
	}
	w.T.Fatal("the queues never become empty")
}

// Run lets the time d pass. While messages are delayed or in flight, Run advances the
// clock in steps; otherwise it jumps to the next minute in which scheduled work is due.
func (w *World) Run(d, step time.Duration) {
	w.T.Helper()
	end := w.Clock.Now().Add(d)
	w.Work()
	for w.Clock.Now().Before(end) {
		now, next := w.Clock.Now(), w.due().Truncate(time.Minute)
		if !next.After(now) {
			next = now.Truncate(time.Minute).Add(time.Minute)
		}
		if w.pending() && now.Add(step).Before(next) {
			next = now.Add(step)
		}
		if next.After(end) {
			next = end
		}
		w.Clock.Advance(next.Sub(now))
		if !next.Truncate(time.Minute).Equal(now.Truncate(time.Minute)) && !w.due().After(next) {
			if err := w.Checks.Run(context.Background()); err != nil && !strings.Contains(err.Error(), "injected") {
				w.T.Fatalf("schedule: %v", err)
			}
			w.reincarnate()
		}
		w.Work()
	}
}

// schedule is when the schedule has something to do, as of so many calls.
type schedule struct {
	calls int
	at    time.Time
}

// due returns the time at which scheduled work is due next. It asks the engine only if
// the plan has seen calls since the last time, because on some engines every look-up is a
// request.
func (w *World) due() time.Time {
	w.T.Helper()
	if w.plan == nil {
		return w.firstDue()
	}
	if made := w.plan.Made(); w.next.at.IsZero() || made != w.next.calls {
		w.next = schedule{made, w.firstDue()}
	}
	return w.next.at
}

func (w *World) firstDue() time.Time {
	w.T.Helper()
	first := w.Clock.Now().Add(1000 * time.Hour)
	for shard := range circuit.Shards {
		due, err := w.raw.DueServers(context.Background(), shard, first, 1)
		if err != nil {
			w.T.Fatal(err)
		}
		if len(due) > 0 && due[0].CheckAt.Before(first) {
			first = due[0].CheckAt
		}
	}
	for shard := range parking.Shards {
		heads, err := w.raw.DueHeads(context.Background(), shard, first, 1)
		if err != nil {
			w.T.Fatal(err)
		}
		// A turn under a rate limit is sent a step ahead.
		if len(heads) > 0 && heads[0].Due.Add(-time.Minute).Before(first) {
			first = heads[0].Due.Add(-time.Minute)
		}
	}
	return w.firstLook(first)
}

// firstLook is when an activity that may be done is looked at first, if that is before a
// time.
func (w *World) firstLook(first time.Time) time.Time {
	w.T.Helper()
	at, err := w.raw.NextWatch(context.Background(), first)
	if err != nil {
		w.T.Fatal(err)
	}
	return at
}

// pending reports whether any queue has messages that will become visible.
func (w *World) pending() bool {
	w.T.Helper()
	for _, name := range topology.Sources {
		if w.depth(name) != (queue.Depth{}) {
			return true
		}
	}
	return false
}

func (w *World) depth(n queue.Name) queue.Depth {
	w.T.Helper()
	d, err := w.Engine.Queue(n).Depth(context.Background())
	if err != nil {
		w.T.Fatal(err)
	}
	return d
}
