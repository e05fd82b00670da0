package parking

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/message"
)

// GroupOf is the group of an ordered delivery: what must stay in order.
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

// Release says how parked deliveries are sent.
type Release struct {
	// Trial marks them as the ones that decide about their server.
	Trial bool
	// Spread is the time over which they become visible, at random, so that a
	// server that is back is not met by a herd. The ordered queue has no delays.
	Spread time.Duration
	// Once: the ordered queue may drop a delivery that it remembers to have been
	// sent in the last minutes. Otherwise it is sent in any case.
	Once bool
}

// Send sends deliveries on their way and returns those that were sent. They keep
// their spots: the caller empties those of unordered ones, which comes second so
// that a crash in between sends one twice and loses none.
func (l *Lot) Send(ctx context.Context, ps []Parked, how Release) ([]Parked, error) {
	byQueue := map[queue.Name][]Parked{}
	for _, p := range ps {
		name := QueueOf(p.Activity)
		byQueue[name] = append(byQueue[name], p)
	}
	var sent []Parked
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(byQueue)) {
		group := byQueue[name]
		ms := make([]queue.Message, len(group))
		for i, p := range group {
			m, err := l.message(name, p, how)
			if err != nil {
				return sent, err
			}
			ms[i] = m
		}
		for i, err := range l.Queues(name).SendBatch(ctx, ms) {
			if err != nil {
				errs = append(errs, fmt.Errorf("release %s to %s: %w", group[i].Activity.ID, name, err))
				continue
			}
			sent = append(sent, group[i])
		}
	}
	return sent, errors.Join(errs...)
}

func (l *Lot) message(name queue.Name, p Parked, how Release) (queue.Message, error) {
	d := p.Delivery
	d.Trial = how.Trial
	body, err := message.Encode(message.Message{Activity: &p.Activity, Deliver: &d})
	if err != nil {
		return queue.Message{}, fmt.Errorf("release %s: %w", p.Activity.ID, err)
	}
	m := queue.Message{Body: body}
	if name.FIFO() {
		m.OrderingKey, m.DeduplicationKey = p.Group, SendKey(p.Activity.ID, d)
		if !how.Once {
			m.DeduplicationKey += "/" + strconv.FormatInt(l.Now().UnixNano(), 36)
		}
		return m, nil
	}
	m.Delay = min(time.Duration(float64(how.Spread)*l.Random()), queue.MaxDelay)
	return m, nil
}

// SendKey names the sending of one delivery: sending it again is the same.
func SendKey(id activity.ID, d message.Delivery) string {
	return fmt.Sprintf("%s/%d/%d/%d", id, d.Chunk, d.Position, d.Generation)
}

// Unparked empties the spots of those that do not keep theirs.
func (l *Lot) Unparked(ctx context.Context, ps []Parked) error {
	var spots []Spot
	for _, p := range ps {
		if p.Group == "" {
			spots = append(spots, p.Spot())
		}
	}
	if len(spots) == 0 {
		return nil
	}
	if err := l.Spots.Unpark(ctx, spots); err != nil {
		return fmt.Errorf("empty spots: %w", err)
	}
	return nil
}
