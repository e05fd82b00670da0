package deadletter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/message"
)

// Reviver sends dead deliveries again.
type Reviver struct {
	Store  Store
	Queues func(queue.Name) queue.Sender
	Now    func() time.Time
}

// Revive sends up to limit deliveries whose dead letters f selects, then removes these dead
// letters. It returns how many, and a cursor if there may be more. After a crash in between
// they can be revived again: the second message finds the outcome of the first.
func (r Reviver) Revive(ctx context.Context, f Filter, cursor string, limit int) (revived int, next string, err error) {
	ls, next, err := r.Store.DeadLetters(ctx, f, cursor, limit)
	if err != nil {
		return 0, "", fmt.Errorf("revive dead letters: %w", err)
	}
	revived, err = r.revive(ctx, ls)
	return revived, next, err
}

// revive sends those of ls that can be read, and removes what was sent.
func (r Reviver) revive(ctx context.Context, ls []DeadLetter) (revived int, err error) {
	ls = slices.DeleteFunc(ls, func(l DeadLetter) bool { return l.Damaged != nil })
	sent, errSend := r.send(ctx, ls, 0)
	if err := errors.Join(errSend, r.Store.RemoveDeadLetters(ctx, sent)); err != nil {
		return len(sent), fmt.Errorf("revive dead letters: %w", err)
	}
	return len(sent), nil
}

// send sends ls, for attempts after a wait.
func (r Reviver) send(ctx context.Context, ls []DeadLetter, wait time.Duration) (sent []DeadLetter, err error) {
	ms := make([]message.Addressed, len(ls))
	for i, l := range ls {
		if ms[i], err = r.message(l, wait); err != nil {
			return nil, err
		}
	}
	var errs []error
	for i, err := range message.Send(ctx, r.Queues, ms) {
		if err != nil {
			errs = append(errs, fmt.Errorf("send %s to %s: %w", ls[i].Name(), ms[i].Queue, err))
			continue
		}
		sent = append(sent, ls[i])
	}
	return sent, errors.Join(errs...)
}

// message is the delivery of l with all its tries and its full time, after a wait.
func (r Reviver) message(l DeadLetter, wait time.Duration) (message.Addressed, error) {
	d := l.Delivery
	d.Attempts, d.Trial, d.Since, d.Revive = 0, false, r.Now(), time.Time{}
	d.Generation = max(d.Generation, l.Last.Generation+1)
	name := message.QueueOf(l.Activity)
	to := message.Sending{Queue: name, Can: r.Queues(name).Capabilities(), Copy: "revived", Wait: wait, Now: d.Since}
	if !name.Ordered() {
		to.Copy += strconv.FormatInt(d.Since.UnixNano(), 36)
	}
	m, err := d.Queued(l.Activity, to)
	if err != nil {
		return m, fmt.Errorf("revive %s: %w", l.Name(), err)
	}
	return m, nil
}
