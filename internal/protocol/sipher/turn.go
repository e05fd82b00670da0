package sipher

import (
	"context"
	"time"

	"fedpost/internal/activity/outcome"
)

// turnEvery is how often a delivery to a server that hangs is tried, over all
// workers: each holds one of them for the whole of Timeout, so about eight are
// held at most, however many deliveries wait. A few deliveries never notice.
const turnEvery = 2 * time.Second

// turn waits for its turn where the server hangs. Without the protocol's other
// failures, which end at once, a server that hangs would hold up all workers
// with nothing but its backlog.
func (d *delivery) turn(ctx context.Context) (outcome.Outcome, bool) {
	if d.server.TurnAt.IsZero() {
		return outcome.Outcome{}, true
	}
	next, err := d.store.TakeTurn(ctx, d.server.URL, d.now(), turnEvery)
	if err != nil {
		d.log.ErrorContext(ctx, "cannot take a turn to deliver to a sipher server that hangs", "server", d.server.URL, "error", err)
		return outcome.Outcome{}, true
	}
	if next.IsZero() {
		return outcome.Outcome{}, true
	}
	return outcome.Outcome{
		Class: outcome.Retry, Try: outcome.Waiting, RetryAfter: next, Err: "waits for its turn: the server does not answer in time",
	}, false
}

// endTurns lets everybody go again: the server answers.
func (d *delivery) endTurns(ctx context.Context) {
	if d.server.TurnAt.IsZero() {
		return
	}
	if err := d.store.EndTurns(ctx, d.server.URL); err != nil {
		d.log.ErrorContext(ctx, "cannot note that a sipher server does not hang", "server", d.server.URL, "error", err)
	}
}
