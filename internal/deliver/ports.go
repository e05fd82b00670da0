package deliver

import (
	"context"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/deliver/intake"
	"fedpost/internal/ledger"
	"fedpost/internal/ledger/events"
)

// Queue is a queue as workers need it.
type Queue = intake.Queue

// Death is a delivery that was given up.
type Death struct {
	Activity  activity.Activity
	Recipient ledger.Recipient
	// Reason in one word, such as "exhausted".
	Reason string
	// Revive is until when the delivery is revived if its server comes back; zero: never.
	Revive time.Time
}

// DeadLetterWriter stores dead letters and sends them to the dead-letter queue. Adding one
// twice is harmless. Its caller writes the ledger's record afterwards.
type DeadLetterWriter interface {
	Add(ctx context.Context, ds []Death) error
}

// EventLog writes events. Repeating a call is harmless.
type EventLog interface {
	intake.Watcher
	AppendEnds(ctx context.Context, ends []events.End) error
	Finish(ctx context.Context, id activity.ID) error
}

// Meter counts for metrics and statistics.
type Meter interface {
	intake.Meter
	Attempted(a activity.Activity, o outcome.Outcome, s activity.State)
	// Flush is called at the end of a batch. The process may be frozen afterwards.
	Flush(ctx context.Context)
}
