package wakeup

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"fedpost/internal/engine/queue"
)

type Source struct {
	Name   queue.Name
	Config queue.Config
	// Take takes the messages that are visible. It calls reads when it begins to read the queue.
	Take func(ctx context.Context, o queue.ReceiveOptions, reads func()) ([]queue.Received, error)
	// Next returns how long after the last Take the queue has to be read again although nothing
	// wakes the receiver: when the next hidden message becomes visible.
	Next func(ctx context.Context) (time.Duration, error)
	// Closed ends the wait with ErrClosed.
	Closed    <-chan struct{}
	ErrClosed error
}

// Receive takes messages, and waits for some as o says. It waits in real time, whatever the
// engine's clock is.
func (n *Notifier) Receive(ctx context.Context, s Source, o queue.ReceiveOptions) ([]queue.Received, error) {
	got, err := n.receive(ctx, s, o)
	if err != nil {
		return nil, fmt.Errorf("receive from %s: %w", s.Name, err)
	}
	return got, nil
}

func (n *Notifier) receive(ctx context.Context, s Source, o queue.ReceiveOptions) ([]queue.Received, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	o.Visibility = cmp.Or(o.Visibility, s.Config.Visibility)
	if o.Wait == 0 {
		return n.take(ctx, s, o, func() {})
	}
	deadline := time.Now().Add(o.Wait)
	w := n.Join(s.Name, o.Max)
	defer n.Leave(w)
	for {
		got, err := n.take(ctx, s, o, func() { n.Reads(w) })
		left := time.Until(deadline)
		if err != nil || len(got) > 0 || left <= 0 {
			return got, err
		}
		if err := n.sleep(ctx, s, w, left); err != nil {
			return nil, err
		}
	}
}

func (n *Notifier) take(ctx context.Context, s Source, o queue.ReceiveOptions, reads func()) ([]queue.Received, error) {
	got, err := s.Take(ctx, o, reads)
	if err != nil || len(got) == o.Max {
		n.Wake(s.Name, 1) // there may be more messages than this receiver was woken for
	}
	return got, err
}

// sleep waits, for at most left, until the queue has to be read again.
func (n *Notifier) sleep(ctx context.Context, s Source, w *Waiter, left time.Duration) error {
	if n.Leads(w) {
		next, err := s.Next(ctx)
		if err != nil {
			return err
		}
		left = min(left, next)
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-w.Woken():
	case <-timer.C:
	case <-s.Closed:
		return s.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// Announce wakes receivers for messages that were sent. wake is Wake, or a function that calls it.
func (n *Notifier) Announce(name queue.Name, ms []queue.Message, wake func(name queue.Name, messages int)) {
	visible := 0
	for _, m := range ms {
		if m.Delay == 0 {
			visible++
		}
	}
	if visible > 0 {
		wake(name, visible)
	}
	if visible < len(ms) {
		n.Shift(name)
	}
}
