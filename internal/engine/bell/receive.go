package bell

import (
	"context"
	"fmt"
	"time"

	"fedpost/internal/engine/queue"
)

// Source is a queue of an engine, for Receive.
type Source struct {
	Name   queue.Name
	Config queue.Config
	// Take takes the messages that are visible. It calls reads when it begins to read the queue.
	Take func(ctx context.Context, o queue.ReceiveOptions, reads func()) ([]queue.Received, error)
	// Next returns how long after the last Take the queue has to be read again although nothing
	// rings: when the next hidden message becomes visible.
	Next func(ctx context.Context) (time.Duration, error)
	// Closed ends the wait with ErrClosed.
	Closed    <-chan struct{}
	ErrClosed error
}

// Receive takes messages, and waits for some as o says. It waits in real time, whatever the
// engine's clock is.
func (b *Bell) Receive(ctx context.Context, s Source, o queue.ReceiveOptions) ([]queue.Received, error) {
	got, err := b.receive(ctx, s, o)
	if err != nil {
		return nil, fmt.Errorf("receive from %s: %w", s.Name, err)
	}
	return got, nil
}

func (b *Bell) receive(ctx context.Context, s Source, o queue.ReceiveOptions) ([]queue.Received, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if o.Visibility == 0 {
		o.Visibility = s.Config.Visibility
	}
	if o.Wait == 0 {
		return b.take(ctx, s, o, func() {})
	}
	deadline := time.Now().Add(o.Wait)
	w := b.Join(s.Name, o.Max)
	defer b.Leave(w)
	for {
		got, err := b.take(ctx, s, o, func() { b.Reads(w) })
		left := time.Until(deadline)
		if err != nil || len(got) > 0 || left <= 0 {
			return got, err
		}
		if err := b.sleep(ctx, s, w, left); err != nil {
			return nil, err
		}
	}
}

func (b *Bell) take(ctx context.Context, s Source, o queue.ReceiveOptions, reads func()) ([]queue.Received, error) {
	got, err := s.Take(ctx, o, reads)
	if err != nil || len(got) == o.Max {
		b.Ring(s.Name, 1) // there may be more messages than this receiver was rung for
	}
	return got, err
}

// sleep waits, for at most left, until the queue has to be read again.
func (b *Bell) sleep(ctx context.Context, s Source, w *Waiter, left time.Duration) error {
	if b.Watches(w) {
		next, err := s.Next(ctx)
		if err != nil {
			return err
		}
		left = min(left, next)
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-w.Rung():
	case <-timer.C:
	case <-s.Closed:
		return s.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// Announce wakes receivers for messages that were sent. ring is Ring, or a function that calls it.
func (b *Bell) Announce(n queue.Name, ms []queue.Message, ring func(n queue.Name, messages int)) {
	visible := 0
	for _, m := range ms {
		if m.Delay == 0 {
			visible++
		}
	}
	if visible > 0 {
		ring(n, visible)
	}
	if visible < len(ms) {
		b.Shift(n)
	}
}
