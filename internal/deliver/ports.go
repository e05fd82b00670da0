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
	// Reason in one word, such as "exhausted", for an attribute of the message.
	Reason string
	// Revive is until when the delivery is sent anew by itself if its server comes back;
	// zero: not at all.
	Revive time.Time
}

// DeadLetterWriter keeps deliveries that were given up as dead letters, and sends
// them to the dead-letter queue. Adding one twice is harmless. It does not write
// the ledger's record, which its caller does afterwards.
type DeadLetterWriter interface {
	Add(ctx context.Context, ds []Death) error
}

// Teller appends what became of recipients to the feed of events. Repeating a call is
// harmless.
type Teller interface {
	intake.Watcher
	TellEnds(ctx context.Context, ends []events.End) error
	// Finish is that of events.Watcher.
	Finish(ctx context.Context, id activity.ID) error
}

// Meter counts for metrics and statistics.
type Meter interface {
	// Attempted is called after each attempt, with the state it led to.
	Attempted(a activity.Activity, o outcome.Outcome, s activity.State)
	// Counted adds to a counter, such as "Parked".
	Counted(name string, n int)
	// Recorded counts what was just recorded in the ledger.
	Recorded(rs []ledger.Recipient)
	// Flush is called at the end of a batch, after which the process may be
	// frozen for good.
	Flush(ctx context.Context)
}

type unmetered struct{}

func (unmetered) Attempted(activity.Activity, outcome.Outcome, activity.State) {}
func (unmetered) Counted(string, int)                                          {}
func (unmetered) Recorded([]ledger.Recipient)                                  {}
func (unmetered) Flush(context.Context)                                        {}
