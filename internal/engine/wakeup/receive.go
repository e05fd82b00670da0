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
	// Park returns a Take that the engine can make together with a send, nil if it cannot.
	Park func(o queue.ReceiveOptions, reads func()) Parked
	// Next returns how long after the last Take the queue has to be read again although nothing
	// wakes the receiver: when the next hidden message becomes visible.
	Next func(ctx context.Context) (time.Duration, error)
	// Closed ends the wait with ErrClosed.
	Closed    <-chan struct{}
	ErrClosed error
}

// Parked is the next Take of a receiver that sleeps. An engine that sends messages gets it from
// Notifier.Unpark, and makes it in the same transaction: the receiver has the messages after one
// commit instead of two.
type Parked interface {
	// Done is closed when the transaction has ended.
	Done() <-chan struct{}
	// Got returns what was taken, once Done is closed.
	Got(ctx context.Context) ([]queue.Received, error)
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
		return n.took(s, o)(s.Take(ctx, o, func() {}))
	}
	deadline := time.Now().Add(o.Wait)
	w := n.Join(s.Name, o.Max)
	defer n.Leave(w)
	for {
		got, err := n.sleep(ctx, s, o, w, deadline)
		if err != nil || len(got) > 0 {
			return got, err
		}
		got, err = n.took(s, o)(s.Take(ctx, o, func() { n.Reads(w) }))
		if err != nil || len(got) > 0 || time.Until(deadline) <= 0 {
			return got, err
		}
	}
}

// took wakes another receiver if there may be more messages than a Take has returned, or if it has
// hidden some for a short time.
func (n *Notifier) took(s Source, o queue.ReceiveOptions) func([]queue.Received, error) ([]queue.Received, error) {
	return func(got []queue.Received, err error) ([]queue.Received, error) {
		if err != nil || len(got) == o.Max {
			n.Wake(s.Name, 1)
		}
		if len(got) > 0 {
			n.Shift(s.Name, o.Visibility)
		}
		return got, err
	}
}

// sleep waits until the queue has to be read, the deadline at the latest, or until messages were sent
// and taken at once.
func (n *Notifier) sleep(ctx context.Context, s Source, o queue.ReceiveOptions, w *Waiter, deadline time.Time) ([]queue.Received, error) {
	var done <-chan struct{}
	parked := s.Park(o, func() { n.Reads(w) })
	if parked != nil {
		done = parked.Done()
	}
	if !n.park(w, parked) {
		return nil, nil
	}
	left, err := time.Until(deadline), error(nil)
	if n.Leads(w) {
		var next time.Duration
		next, err = s.Next(ctx)
		left = min(left, next)
		n.sleeps(w, left)
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	if err == nil {
		select {
		case <-w.Woken():
		case <-done:
		case <-timer.C:
		case <-s.Closed:
			err = s.ErrClosed
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if n.withdraw(w) {
		return nil, err
	}
	<-done
	// If the transaction failed, the receiver reads the queue, which shows whether the engine works.
	if got, failed := n.took(s, o)(parked.Got(ctx)); failed == nil && len(got) > 0 {
		return got, nil
	}
	return nil, err
}

// Visible is how many of the messages can be received as soon as they are sent, and after which
// time the first of the others.
func Visible(ms []queue.Message) (n int, then time.Duration) {
	for _, m := range ms {
		switch {
		case m.Delay == 0:
			n++
		case then == 0 || m.Delay < then:
			then = m.Delay
		}
	}
	return n, then
}
