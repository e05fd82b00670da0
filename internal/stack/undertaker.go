package stack

import (
	"context"
	"errors"

	"fedpost/internal/activity"
	"fedpost/internal/deliver"
	"fedpost/internal/message"
	"fedpost/internal/outbound"
	"fedpost/internal/parking"
	"fedpost/internal/queue"
)

// undertaker sends dead deliveries to the dead-letter queue of the queue they
// came from, each as the message that would deliver it anew: the queue's own
// redrive revives it.
type undertaker struct {
	queue func(queue.Name) queue.Sender
}

func (p Ports) undertaker() undertaker { return undertaker{p.sender} }

// Bury implements deliver.Undertaker.
func (u undertaker) Bury(ctx context.Context, ds []deliver.Death) error {
	byQueue := map[queue.Name][]queue.Message{}
	for _, d := range ds {
		m, err := letter(d)
		if err != nil {
			return err
		}
		name := parking.QueueOf(d.Activity).DeadLetter()
		byQueue[name] = append(byQueue[name], m)
	}
	var errs []error
	for name, ms := range byQueue {
		errs = append(errs, u.queue(name).SendBatch(ctx, ms)...)
	}
	return errors.Join(errs...)
}

// letter is a dead delivery as a queue message. Its generation is above that of
// the record of its death, which marks it as revived, and it begins anew: its
// tries and, from its death on, its time.
func letter(d deliver.Death) (queue.Message, error) {
	r := d.Recipient
	delivery := message.Delivery{
		Chunk: r.Chunk, Position: r.Position, Targets: []activity.Target{r.Target}, Generation: r.Generation + 1, Since: r.UpdatedAt,
	}
	body, err := message.Encode(message.Message{Activity: &d.Activity, Deliver: &delivery})
	if err != nil {
		return queue.Message{}, err
	}
	m := queue.Message{Body: body, Attributes: map[string]string{
		deliver.AttributeReason: d.Reason, deliver.AttributeError: outbound.Clean(r.LastError, 512),
		deliver.AttributeSource: string(parking.QueueOf(d.Activity)),
	}}
	if d.Activity.Ordered() {
		m.OrderingKey = parking.GroupOf(d.Activity, r.Target.Host())
		m.DeduplicationKey = "dead/" + parking.SendKey(d.Activity.ID, delivery)
	}
	return m, nil
}
