package faults

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"fedpost/internal/engine/queue"
)

// Queue wraps q under a name. Capabilities is not counted as a call: it asks no
// server.
func Queue(in Interceptor, name string, q queue.Queue) queue.Queue {
	return &faultyQueue{sender{in, name, q}, q}
}

type sender struct {
	in   Interceptor
	name string
	next queue.Sender
}

func (s *sender) Capabilities() queue.Capabilities { return s.next.Capabilities() }

func (s *sender) Send(ctx context.Context, m queue.Message) error {
	return s.in.Intercept(ctx, Call{Target: s.name, Op: "Send", Entries: 1, About: digest(m)}, func(Fault) error { return s.next.Send(ctx, m) })
}

// SendBatch is one call, however many requests the engine makes of it.
func (s *sender) SendBatch(ctx context.Context, ms []queue.Message) []error {
	var errs []error
	err := s.in.Intercept(ctx, Call{Target: s.name, Op: "SendBatch", Entries: len(ms), About: digest(ms...)}, func(f Fault) error {
		if f.Kind == FailEntry {
			errs = s.without(ctx, ms, f)
		} else {
			errs = s.next.SendBatch(ctx, ms[:f.half(len(ms))])
		}
		return nil
	})
	if err != nil {
		errs = make([]error, len(ms))
		for i := range errs {
			errs[i] = err
		}
	}
	return errs
}

// digest identifies messages by their content.
func digest(ms ...queue.Message) string {
	h := fnv.New32a()
	for _, m := range ms {
		h.Write([]byte(m.Body))
	}
	return fmt.Sprintf("%08x", h.Sum32())
}

// without sends all messages except the fault's entry and, by the contract of a FIFO
// queue, the later messages of that entry's group.
func (s *sender) without(ctx context.Context, ms []queue.Message, f Fault) []error {
	fifo := s.next.Capabilities().NativeDeduplication
	errs := make([]error, len(ms))
	var rest []queue.Message
	var indices []int
	for i, m := range ms {
		if i == f.Entry || (fifo && i > f.Entry && m.OrderingKey == ms[f.Entry].OrderingKey) {
			errs[i] = fmt.Errorf("%w: entry %d: %w", ErrInjected, i, queue.ErrNotSent)
			continue
		}
		rest, indices = append(rest, m), append(indices, i)
	}
	for j, err := range s.next.SendBatch(ctx, rest) {
		errs[indices[j]] = err
	}
	return errs
}

type faultyQueue struct {
	sender
	next queue.Queue
}

func (q *faultyQueue) Receive(ctx context.Context, o queue.ReceiveOptions) ([]queue.Received, error) {
	return result(ctx, q.in, Call{Target: q.name, Op: "Receive", Entries: 1}, func() ([]queue.Received, error) { return q.next.Receive(ctx, o) })
}

func (q *faultyQueue) Delete(ctx context.Context, handle string) error {
	return q.in.Intercept(ctx, Call{Target: q.name, Op: "Delete", Entries: 1, About: handle}, func(Fault) error { return q.next.Delete(ctx, handle) })
}

func (q *faultyQueue) ChangeVisibility(ctx context.Context, handle string, d time.Duration) error {
	return q.in.Intercept(ctx, Call{Target: q.name, Op: "ChangeVisibility", Entries: 1, About: handle}, func(Fault) error {
		return q.next.ChangeVisibility(ctx, handle, d)
	})
}

func (q *faultyQueue) Depth(ctx context.Context) (queue.Depth, error) {
	return result(ctx, q.in, Call{Target: q.name, Op: "Depth", Entries: 1}, func() (queue.Depth, error) { return q.next.Depth(ctx) })
}

// result makes a call that returns a value, which is zero with any error.
func result[T any](ctx context.Context, in Interceptor, c Call, act func() (T, error)) (T, error) {
	var v T
	err := in.Intercept(ctx, c, func(Fault) (err error) {
		v, err = act()
		return err
	})
	if err != nil {
		var zero T
		return zero, err
	}
	return v, nil
}
