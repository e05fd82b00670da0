package sipher

import (
	"context"
	"time"

	"fedpost/internal/activity/outcome"
)

// turnEvery is the time between two deliveries to a server that hangs, over all workers. Each holds a
// worker for Timeout (15 s), so about eight workers are held at most.
const turnEvery = 2 * time.Second

// turn takes a turn to deliver to a server that hangs, so that its backlog does not hold all workers;
// ok is false if another delivery has the turn.
func (d *delivery) turn(ctx context.Context) (outcome.Outcome, bool) {
	if d.server.TurnAt.IsZero() {
		return outcome.Outcome{}, true
	}
	next, err := d.Store.TakeTurn(ctx, d.server.URL, d.Now(), turnEvery)
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

func (d *delivery) endTurns(ctx context.Context) {
	if !d.server.TurnAt.IsZero() {
		d.aside(ctx, "cannot record that a sipher server does not hang", func(ctx context.Context) error {
			return d.Store.EndTurns(ctx, d.server.URL)
		})
	}
}
