package message

import (
	"context"
	"maps"
	"slices"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
)

// GroupOf returns the FIFO group of an ordered delivery, in which deliveries stay in
// order. It is empty for deliveries without an ordering key.
func GroupOf(a activity.Activity, host string) string {
	if !a.Ordered() {
		return ""
	}
	return a.OrderingKey + "\n" + host
}

// QueueOf is the queue that deliveries of an activity travel on.
func QueueOf(a activity.Activity) queue.Name {
	switch {
	case a.Ordered():
		return queue.Ordered
	case a.Priority == activity.High:
		return queue.High
	case a.Priority == activity.Low:
		return queue.Low
	}
	return queue.Normal
}

// Queued returns d, a delivery of a, as a message for a queue. On a FIFO queue the
// message is in the group of its first target, and the queue drops a second copy.
func (d Delivery) Queued(name queue.Name, a activity.Activity) (Addressed, error) {
	body, err := Encode(Message{Activity: &a, Deliver: &d})
	if err != nil {
		return Addressed{}, err
	}
	m := Addressed{Queue: name, Message: queue.Message{Body: body}}
	if name.FIFO() {
		m.OrderingKey, m.DeduplicationKey = GroupOf(a, d.Targets[0].Host()), d.Unit(a.ID).String()
	}
	return m, nil
}

// Addressed is a message and the queue it is for.
type Addressed struct {
	Queue queue.Name
	queue.Message
}

// Send sends messages, those of one queue together and in their order. It returns
// an error for each, nil for those that were sent.
func Send(ctx context.Context, queues func(queue.Name) queue.Sender, ms []Addressed) []error {
	places := map[queue.Name][]int{}
	for i, m := range ms {
		places[m.Queue] = append(places[m.Queue], i)
	}
	errs := make([]error, len(ms))
	for _, name := range slices.Sorted(maps.Keys(places)) {
		batch := make([]queue.Message, len(places[name]))
		for k, i := range places[name] {
			batch[k] = ms[i].Message
		}
		for k, err := range queues(name).SendBatch(ctx, batch) {
			errs[places[name][k]] = err
		}
	}
	return errs
}
