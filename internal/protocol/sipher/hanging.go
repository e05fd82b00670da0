package sipher

import (
	"context"
	"time"

	"fedpost/internal/activity/outcome"
)

// tryEvery is the time between two tries of a server that hangs, over all workers. Each try holds a
// worker for Timeout (15 s), so about eight workers are held at most.
const tryEvery = 2 * time.Second

// reserveTry reserves the next try of a server that hangs, so that its backlog does not hold all
// workers. ok is false if another delivery has it.
func (d *delivery) reserveTry(ctx context.Context) (o outcome.Outcome, ok bool) {
	if d.server.NextTryAt.IsZero() {
		return outcome.Outcome{}, true
	}
	next, err := d.Store.ReserveTry(ctx, d.server.URL, d.Now(), tryEvery)
	if err != nil {
		d.Log.ErrorContext(ctx, "cannot claim the next try of a sipher server that hangs", "server", d.server.URL, "error", err)
		return outcome.Outcome{}, true
	}
	if next.IsZero() {
		return outcome.Outcome{}, true
	}
	return outcome.Outcome{
		Class: outcome.Retry, Try: outcome.Waiting, RetryAfter: next, Err: "the server does not answer in time; one of its jobs is tried every two seconds",
	}, false
}

func (d *delivery) markAnswering(ctx context.Context) {
	if !d.server.NextTryAt.IsZero() {
		d.aside(ctx, "cannot record that a sipher server does not hang", func(ctx context.Context) error {
			return d.Store.MarkAnswering(ctx, d.server.URL)
		})
	}
}
