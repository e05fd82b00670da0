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

// Queue sends messages, and sets when a received message comes back.
type Queue interface {
	queue.Sender
	ChangeVisibility(ctx context.Context, handle string, d time.Duration) error
}

// Agenda takes work that is not due yet.
type Agenda interface {
	PutTask(ctx context.Context, t agenda.Task) error
}

// Watcher checks whether activities are done.
type Watcher interface {
	Watch(ctx context.Context, id activity.ID, about events.About, forget time.Time) error
}

// Meter counts for metrics and statistics.
type Meter interface {
	Counted(name string, n int)
	Recorded(rs []ledger.Recipient)
}

// Ports are what work on messages needs. All fields are required.
type Ports struct {
	Queues    func(queue.Name) Queue
	Ledger    ledger.Store
	Agenda    Agenda
	Payloads  claimcheck.Store
	Protocols protocol.Set
	Log       *slog.Logger
	Now       func() time.Time
	// Random returns numbers in [0, 1) for jitter.
	Random func() float64
}

// Intake receives messages. All fields but Events are required.
type Intake struct {
	Ports
	Events Watcher // nil: no events of activities that are done
	// MaxReceives is after how many receives a queue moves a message to its dead letters; 0:
	// never.
	MaxReceives func(queue.Name) int
	Meter       Meter
}

// Work is a sound message: a delivery, or one to expand.
type Work struct {
	From     queue.Name
	Received queue.Received
	Message  message.Message
	// Last says why the message is given up without an attempt: it was received too often.
	// Empty: it is not.
	Last string
}

// Traced describes w to the tracer, as work on it begins.
func (w Work) Traced() tracing.Received {
	trial := w.Message.Deliver != nil && w.Message.Deliver.Trial
	return tracing.Received{From: w.From, ID: w.Received.ID, Receives: w.Received.ReceiveCount, Began: time.Now(), Trial: trial}
}
