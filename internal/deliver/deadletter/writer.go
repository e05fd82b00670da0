package deadletter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/deliver"
	"fedpost/internal/deliver/bodies"
	"fedpost/internal/deliver/intake"
	"fedpost/internal/engine/queue"
	"fedpost/internal/message"
)

// Writer keeps each delivery that the engine gives up twice: as a dead letter in
// the table, and as a message in the dead-letter queue. A large body is stored once for
// both.
//
// The table comes first: Add is repeated after a crash, and a dead letter written
// twice is one, where a message sent twice is two. The ledger says that the
// recipient is dead only after both.
type Writer struct {
	Store  Store
	Queues func(queue.Name) queue.Sender
	// Keep is how long dead letters are kept, at most Longest.
	Keep time.Duration
}

// Add implements deliver.DeadLetterWriter.
func (u Writer) Add(ctx context.Context, ds []deliver.Death) error {
	ds, err := u.light(ctx, ds)
	if err != nil {
		return err
	}
	dead := make([]DeadLetter, len(ds))
	ms := make([]message.Addressed, len(ds))
	for i, d := range ds {
		dead[i] = u.deadLetter(d)
		var err error
		if ms[i], err = u.notice(dead[i]); err != nil {
			return err
		}
	}
	if err := u.Store.AddDeadLetters(ctx, dead); err != nil {
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

// light is ds with large bodies stored once, for the table and the queue alike. Small ones
// are in both: the table's copy can be listed and is kept for longer than a queue keeps
// anything, and the queue's is what its redrive sends and its alarm counts. To refer from
// one to the other would cost a read, and save less than a kilobyte.
func (u Writer) light(ctx context.Context, ds []deliver.Death) ([]deliver.Death, error) {
	light, kept := slices.Clone(ds), make(map[activity.ID]activity.Apart)
	for i, d := range ds {
		a := &light[i].Activity
		if until := u.forget(d); len(a.Body) >= bodies.Large && a.Apart.Until.Before(until) {
			if _, ok := kept[a.ID]; !ok {
				var err error
				if kept[a.ID], err = u.Store.KeepBody(ctx, *a, until); err != nil {
					return nil, err
				}
			}
			a.Apart = kept[a.ID]
		}
	}
	return light, nil
}

// forget is when the dead letter of d is dropped.
func (u Writer) forget(d deliver.Death) time.Time {
	return d.Recipient.UpdatedAt.Add(min(u.Keep, Longest))
}

// deadLetter is d with the message that sends it anew. The generation of that
// message is above the one that died, which marks it as revived, and its time
// counts from the death on.
func (u Writer) deadLetter(d deliver.Death) DeadLetter {
	r := d.Recipient
	return DeadLetter{
		Activity: d.Activity,
		Delivery: message.Delivery{
			Chunk: r.Chunk, Position: r.Position, Targets: []activity.Target{r.Target},
			Generation: r.Generation + 1, Since: r.UpdatedAt, Revive: d.Revive,
		},
		Last: r, Reason: d.Reason, Died: r.UpdatedAt, Forget: u.forget(d),
	}
}

// notice is l as a message of the dead-letter queue. Its body is the message that
// delivers l anew, so the queue's own redrive revives it, too.
func (u Writer) notice(l DeadLetter) (message.Addressed, error) {
	source := message.QueueOf(l.Activity)
	dead := source.DeadLetter()
	m, err := l.Delivery.Queued(l.Activity, message.Sending{Queue: dead, Can: u.Queues(dead).Capabilities(), Copy: "dead"})
	if err != nil {
		return m, fmt.Errorf("dead letter %s: %w", l.Name(), err)
	}
	m.Attributes = map[string]string{
		intake.AttributeReason: l.Reason, intake.AttributeError: outcome.Clean(l.Last.LastError, longestError),
		intake.AttributeSource: string(source),
	}
	return m, nil
}

// longestError is how much of an error goes into an attribute, in bytes.
const longestError = 512
