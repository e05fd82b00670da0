package message

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
)

// GroupOf returns the FIFO group of a's ordered deliveries to a host, or to an inbox that has left its
// host's group; empty for deliveries without an ordering key.
func GroupOf(a activity.Activity, host string) string {
	if !a.Ordered() {
		return ""
	}
	return a.OrderingKey + "\n" + host
}

// Group is the group of d, a delivery of a to one target: its host's or, if d is Alone, its inbox's.
func (d Delivery) Group(a activity.Activity) string {
	if d.Alone {
		return GroupOf(a, d.Targets[0].Inbox)
	}
	return GroupOf(a, d.Targets[0].Host())
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

// Sending says how a delivery is put on a queue.
type Sending struct {
	Queue queue.Name
	Can   queue.Capabilities // of Queue
	// Wait is how long the work may not begin, counted from Now. The ordered queue ignores it:
	// Delivery.Slot is for that.
	Wait time.Duration
	Now  time.Time
	// Copy distinguishes this message from others of the same delivery. A FIFO queue drops the second of
	// two with the same Copy, even if the first was received and deleted; the ledger detects copies of a
	// delivery. So what may have to be sent again has a Copy of its own each time.
	Copy string
}

// Queued returns d, a delivery of a, as a message for a queue. A FIFO queue cannot delay a message, so the
// message has NotBefore. On a FIFO queue the message is in its Group or, without an ordering key, in a group
// of its own: no message waits for another.
func (d Delivery) Queued(a activity.Activity, s Sending) (Addressed, error) {
	m, wait := Message{Activity: &a, Deliver: &d}, min(max(0, s.Wait), queue.MaxDelay)
	if wait > 0 && s.Can.MaxDelay == 0 && !s.Queue.Ordered() {
		m.NotBefore = s.Now.Add(wait)
	}
	body, err := Encode(m)
	if err != nil {
		return Addressed{}, err
	}
	out := Addressed{Queue: s.Queue, Message: queue.Message{Body: body, Delay: min(wait, s.Can.MaxDelay)}}
	if s.Can.NativeDeduplication {
		key := d.Unit(a.ID).String()
		if s.Copy != "" {
			key += "/" + s.Copy
		}
		out.OrderingKey, out.DeduplicationKey = cmp.Or(d.Group(a), key), key
	}
	if s.Can.Fair {
		out.OrderingKey = m.Sender()
	}
	return out, nil
}

// Addressed is a message and the queue it is for.
type Addressed struct {
	Queue queue.Name
	queue.Message
}

// Send sends messages, those of one queue together and in their order. It returns an error for each; nil:
// sent.
func Send(ctx context.Context, queues func(queue.Name) queue.Sender, ms []Addressed) []error {
	ofQueue := map[queue.Name][]int{}
	for i, m := range ms {
		ofQueue[m.Queue] = append(ofQueue[m.Queue], i)
	}
	errs := make([]error, len(ms))
	for _, name := range slices.Sorted(maps.Keys(ofQueue)) {
		batch := make([]queue.Message, len(ofQueue[name]))
		for k, i := range ofQueue[name] {
			batch[k] = ms[i].Message
		}
		for k, err := range queues(name).SendBatch(ctx, batch) {
			errs[ofQueue[name][k]] = err
		}
	}
	return errs
}

// Unit names what a delivery message is about: a whole chunk, or one of its positions.
type Unit struct {
	Activity activity.ID
	Chunk    int
	Position int // Whole for the chunk
	// Generation is that of the message that asks for a single position.
	Generation int
}

// Unit is what d, a delivery of an activity, is about.
func (d Delivery) Unit(id activity.ID) Unit { return Unit{id, d.Chunk, d.Position, d.Generation} }

// String is also the deduplication key of the unit's message, so that a FIFO queue drops a second copy.
func (u Unit) String() string {
	return fmt.Sprintf("%s/%d/%d/%d", u.Activity, u.Chunk, u.Position, u.Generation)
}

// epoch is how many generations there are from one retry on request to the next: more than a delivery can
// be parked in seven days.
const epoch = 10_000

// NextEpoch is the generation of the message that gives a recipient fresh attempts on request. No other
// message of the recipient has such a generation.
func NextEpoch(generation int) int { return (generation/epoch + 1) * epoch }

// LaterEpoch reports whether somebody asked for fresh attempts between two generations.
func LaterEpoch(now, was int) bool { return now/epoch > was/epoch }
