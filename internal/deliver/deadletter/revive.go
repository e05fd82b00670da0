package deadletter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/message"
	"fedpost/internal/servers/parking"
)

// Reviver sends dead deliveries anew.
type Reviver struct {
	Store  Store
	Queues func(queue.Name) queue.Sender
	Now    func() time.Time
}

// Revive sends the letters that f selects, up to limit of them, and removes
// those that were sent. It returns how many, and a cursor if there may be more.
//
// Sending comes first: dying before the removal leaves a letter that can be
// revived again, and the second message finds what became of the first.
func (r Reviver) Revive(ctx context.Context, f Filter, cursor string, limit int) (revived int, next string, err error) {
	ls, next, err := r.Store.DeadLetters(ctx, f, cursor, limit)
	if err != nil {
		return 0, "", fmt.Errorf("revive dead letters: %w", err)
	}
	sent, errSend := r.send(ctx, ls)
	names := make([]Name, len(sent))
	for i, l := range sent {
		names[i] = l.Name()
	}
	if err := errors.Join(errSend, r.Store.RemoveDeadLetters(ctx, names)); err != nil {
		return len(sent), next, fmt.Errorf("revive dead letters: %w", err)
	}
	return len(sent), next, nil
}

func (r Reviver) send(ctx context.Context, ls []DeadLetter) (sent []DeadLetter, err error) {
	byQueue := map[queue.Name][]DeadLetter{}
	for _, l := range ls {
		name := parking.QueueOf(l.Activity)
		byQueue[name] = append(byQueue[name], l)
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(byQueue)) {
		group := byQueue[name]
		ms := make([]queue.Message, len(group))
		for i, l := range group {
			m, err := r.message(name, l)
			if err != nil {
				return sent, err
			}
			ms[i] = m
		}
		for i, err := range r.Queues(name).SendBatch(ctx, ms) {
			if err != nil {
				errs = append(errs, fmt.Errorf("send %s to %s: %w", group[i].Name(), name, err))
				continue
			}
			sent = append(sent, group[i])
		}
	}
	return sent, errors.Join(errs...)
}

// message is l as a message that begins anew: all of its tries and of its time.
func (r Reviver) message(name queue.Name, l DeadLetter) (queue.Message, error) {
	d := l.Delivery
	d.Attempts, d.Trial, d.Since = 0, false, r.Now()
	d.Generation = max(d.Generation, l.Last.Generation+1)
	body, err := message.Encode(message.Message{Activity: &l.Activity, Deliver: &d})
	if err != nil {
		return queue.Message{}, fmt.Errorf("revive %s: %w", l.Name(), err)
	}
	m := queue.Message{Body: body}
	if name.FIFO() {
		m.OrderingKey = parking.GroupOf(l.Activity, l.Host())
		m.DeduplicationKey = "revived/" + parking.SendKey(l.Activity.ID, d)
	}
	return m, nil
}
