package deadletter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/deliver"
	"fedpost/internal/engine/queue"
	"fedpost/internal/message"
)

// Undertaker buries what the delivery engine gives up: as a letter in the table,
// and as a message in the queue of dead letters.
//
// The letter comes first, because burying is repeated after a crash and a letter
// written twice is one, where a message sent twice is two. The ledger says that
// the recipient is dead only after both, so neither can be missing then.
type Writer struct {
	Store  Store
	Queues func(queue.Name) queue.Sender
	// Keep is how long letters are kept, at most Longest.
	Keep time.Duration
}

// Bury implements deliver.Undertaker.
func (u Writer) Add(ctx context.Context, ds []deliver.Death) error {
	letters := make([]DeadLetter, len(ds))
	ms := make([]message.Addressed, len(ds))
	for i, d := range ds {
		letters[i] = u.deadLetter(d)
		var err error
		if ms[i], err = notice(letters[i]); err != nil {
			return err
		}
	}
	if err := u.Store.AddDeadLetters(ctx, letters); err != nil {
		return err
	}
	var errs []error
	for i, err := range message.Send(ctx, u.Queues, ms) {
		// What no queue takes has its dead letter in the table, where it can be
		// seen, retried and dropped.
		if err != nil && !queue.Refused(err) {
			errs = append(errs, fmt.Errorf("send to %s: %w", ms[i].Queue, err))
		}
	}
	return errors.Join(errs...)
}

// letter is a dead delivery with the message that begins it anew. Its generation
// is above that of the record of its death, which marks it as revived, and its
// time counts from its death on.
func (u Writer) deadLetter(d deliver.Death) DeadLetter {
	r := d.Recipient
	return DeadLetter{
		Activity: d.Activity,
		Delivery: message.Delivery{
			Chunk: r.Chunk, Position: r.Position, Targets: []activity.Target{r.Target},
			Generation: r.Generation + 1, Since: r.UpdatedAt,
		},
		Last: r, Reason: d.Reason, Died: r.UpdatedAt, Forget: r.UpdatedAt.Add(min(u.Keep, Longest)),
	}
}

// notice is a letter as a message of the queue of dead letters. It is the very
// message that delivers it anew, so the queue's own redrive revives it, too.
func notice(l DeadLetter) (message.Addressed, error) {
	source := message.QueueOf(l.Activity)
	m, err := l.Delivery.Queued(source.DeadLetter(), l.Activity)
	if err != nil {
		return m, fmt.Errorf("bury %s: %w", l.Name(), err)
	}
	m.Attributes = map[string]string{
		deliver.AttributeReason: l.Reason, deliver.AttributeError: outcome.Clean(l.Last.LastError, longestError),
		deliver.AttributeSource: string(source),
	}
	if m.Queue.FIFO() {
		m.DeduplicationKey = "dead/" + m.DeduplicationKey
	}
	return m, nil
}

// longestError is how much of an error goes into an attribute, in bytes.
const longestError = 512
