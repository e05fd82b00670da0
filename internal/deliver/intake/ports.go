package intake

import (
	"context"
	"log/slog"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
	"fedpost/internal/ledger/events"
	"fedpost/internal/message"
	"fedpost/internal/message/agenda"
	"fedpost/internal/message/claimcheck"
	"fedpost/internal/message/tracing"
	"fedpost/internal/protocol"
)

// Queue is what a worker needs of a queue: to send to it, and to decide when a message that
// was received from it comes back.
type Queue interface {
	queue.Sender
	ChangeVisibility(ctx context.Context, handle string, d time.Duration) error
}

// Agenda takes work that may not begin yet.
type Agenda interface {
	PutTask(ctx context.Context, t agenda.Task) error
}

// Watcher looks whether activities are done.
type Watcher interface {
	Watch(ctx context.Context, id activity.ID, about events.About, forget time.Time) error
}

// Meter counts for metrics and statistics.
type Meter interface {
	Counted(name string, n int)
	Recorded(rs []ledger.Recipient)
}

// Intake takes messages in. All fields but Events are required.
type Intake struct {
	Queues    func(queue.Name) Queue
	Ledger    ledger.Store
	Agenda    Agenda
	Payloads  claimcheck.Store
	Protocols protocol.Set
	Events    Watcher // nil: nobody is told of activities that are done
	// MaxReceives tells after how many receives a queue gives a message to its dead
	// letters; 0: never.
	MaxReceives func(queue.Name) int
	Log         *slog.Logger
	Meter       Meter
	Now         func() time.Time
	Random      func() float64
}

// Work is a received message that is sound: one to deliver, or one to expand.
type Work struct {
	From     queue.Name
	Received queue.Received
	Message  message.Message
	// Last says why the message is to be given up without an attempt: it has been
	// received too often. Empty: it is not.
	Last string
}

// Traced describes w, on which work begins now, to the tracer.
func (w Work) Traced() tracing.Received {
	trial := w.Message.Deliver != nil && w.Message.Deliver.Trial
	return tracing.Received{From: w.From, ID: w.Received.ID, Receives: w.Received.ReceiveCount, Began: time.Now(), Trial: trial}
}
