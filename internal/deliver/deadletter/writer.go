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

// Writer stores each delivery that was given up twice: in the table, and in the dead-letter
// queue.
//
// The table comes first: Add is repeated after a crash, and a dead letter written twice is one,
// where a message sent twice is two. The ledger's record comes after both.
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
		// What no queue takes can be retried from the table.
		if err != nil && !queue.Refused(err) {
			errs = append(errs, fmt.Errorf("send to %s: %w", ms[i].Queue, err))
		}
	}
	return errors.Join(errs...)
}

// light is ds with large bodies stored once, for table and queue. Small ones are in both: the
// table's copy can be listed and is kept longer, and the queue's copy is what its redrive
// sends.
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

func (u Writer) forget(d deliver.Death) time.Time {
	return d.Recipient.UpdatedAt.Add(min(u.Keep, Longest))
}

// deadLetter is d with the message that sends it again: of a generation above the one that
// died, with its time counted from the death.
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

// notice is l as a message of the dead-letter queue. The queue's redrive delivers its body.
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

// longestError bounds the error in an attribute, in bytes.
const longestError = 512
