package stats

import (
	"context"
	"log/slog"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/engine/queue"
	"fedpost/internal/enqueue"
	"fedpost/internal/ledger"
)

// What is counted beside the states that recipients come to.
const (
	// Accepted recipients, by the API.
	Accepted = "accepted"
	// Attempts that were made.
	Attempts = "attempts"
)

// Ledger counts what is recorded, when it is recorded: what was tried twice
// because a process died is counted once.
type Ledger struct {
	ledger.Store
	Tally *Tally
}

// Record implements ledger.Store.
func (l Ledger) Record(ctx context.Context, c *ledger.Claim, rs []ledger.Recipient, done bool) error {
	if err := l.Store.Record(ctx, c, rs, done); err != nil {
		return err
	}
	for _, r := range rs {
		// Most that are parked have no record: see Meter.
		if r.State != activity.Parked {
			l.Tally.Add(string(r.State), max(1, r.Target.Stands))
		}
	}
	return nil
}

// Meter is a meter as the delivery engine has it.
type Meter interface {
	Attempted(a activity.Activity, o outcome.Outcome, s activity.State)
	Counted(name string, n int)
}

// Metered counts what the ledger does not tell, and passes all on to Next.
type Metered struct {
	Next  Meter // may be nil
	Tally *Tally
}

// Attempted implements Meter.
func (m Metered) Attempted(a activity.Activity, o outcome.Outcome, s activity.State) {
	if !o.Unattempted {
		m.Tally.Add(Attempts, 1)
	}
	if m.Next != nil {
		m.Next.Attempted(a, o, s)
	}
}

// Counted implements Meter.
func (m Metered) Counted(name string, n int) {
	if name == "Parked" {
		m.Tally.Add(string(activity.Parked), n)
	}
	if m.Next != nil {
		m.Next.Counted(name, n)
	}
}

// Enqueuer accepts activities.
type Enqueuer interface {
	Enqueue(ctx context.Context, r enqueue.Request) (enqueue.Result, error)
	EnqueueBatch(ctx context.Context, r enqueue.BatchRequest) ([]enqueue.Result, error)
	Check(ctx context.Context, r enqueue.Request) ([]enqueue.Fault, error)
	CheckBatch(ctx context.Context, r enqueue.BatchRequest) ([]enqueue.Fault, error)
}

// Accepting counts what is accepted.
type Accepting struct {
	Enqueuer
	Tally *Tally
	Log   *slog.Logger
}

// Enqueue implements Enqueuer.
func (a Accepting) Enqueue(ctx context.Context, r enqueue.Request) (enqueue.Result, error) {
	res, err := a.Enqueuer.Enqueue(ctx, r)
	if err == nil {
		a.accepted(ctx, res)
	}
	return res, err
}

// EnqueueBatch implements Enqueuer.
func (a Accepting) EnqueueBatch(ctx context.Context, r enqueue.BatchRequest) ([]enqueue.Result, error) {
	all, err := a.Enqueuer.EnqueueBatch(ctx, r)
	if err == nil {
		a.accepted(ctx, all...)
	}
	return all, err
}

func (a Accepting) accepted(ctx context.Context, all ...enqueue.Result) {
	for _, res := range all {
		if res.Status == enqueue.Queued {
			a.Tally.Add(Accepted, res.Recipients)
		}
	}
	flush(ctx, a.Tally, a.Log)
}

// Worker works on batches.
type Worker interface {
	Handle(ctx context.Context, from queue.Name, batch []queue.Received) ([]string, error)
}

// Working writes the counts after a batch. A process may be frozen after that
// for good, so nothing may be left to later that is not due soon.
type Working struct {
	Worker
	Tally *Tally
	Log   *slog.Logger
}

// Handle implements Worker.
func (w Working) Handle(ctx context.Context, from queue.Name, batch []queue.Received) ([]string, error) {
	failed, err := w.Worker.Handle(ctx, from, batch)
	flush(ctx, w.Tally, w.Log)
	return failed, err
}

// flush writes counts. That they cannot be written is no reason to fail what
// they count: the next flush has them, too.
func flush(ctx context.Context, t *Tally, log *slog.Logger) {
	if err := t.Flush(ctx); err != nil {
		log.WarnContext(ctx, "counts could not be written", "error", err)
	}
}
