package enqueue_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/enqueue/dedup"
	"fedpost/internal/ledger"
)

// wait offers a call to the scheduler and returns the effect that the scheduler gives it. A call
// whose context has ended by then is not made.
func (c *caller) wait(ctx context.Context, op string) (effect, error) {
	end := c.s.end(ctx)
	c.yield <- op
	e := <-c.turn
	if c.s.clock.After(end) && e != dieBefore && e != dieAfter {
		c.s.seen["too late"]++
		return e, context.DeadlineExceeded
	}
	return e, nil
}

// call makes one call with the effect that the scheduler chose.
func (c *caller) call(ctx context.Context, op string, do func()) error {
	e, err := c.wait(ctx, op)
	if err != nil {
		return err
	}
	switch e {
	case dieBefore:
		runtime.Goexit()
	case refuse:
		return errors.New("refused")
	}
	do()
	switch e {
	case dieAfter:
		runtime.Goexit()
	case lose:
		return errors.New("answer lost")
	}
	return nil
}

// Capabilities implements queue.Sender.
func (c *caller) Capabilities() queue.Capabilities {
	return queue.Capabilities{NativeRetrial: true, MaxDelay: queue.MaxDelay}
}

// Send implements queue.Sender: it checks that within a window only one
// activity gets onto the queue.
func (c *caller) Send(ctx context.Context, m queue.Message) error {
	e, err := c.wait(ctx, "send")
	if err != nil {
		return err
	}
	switch e {
	case dieBefore:
		runtime.Goexit()
	case refuse:
		return fmt.Errorf("throttled: %w", queue.ErrNotSent)
	}
	c.s.arrive(m)
	switch e {
	case dieAfter:
		runtime.Goexit()
	case lose:
		return errors.New("answer lost")
	}
	return nil
}

// SendBatch implements queue.Sender.
func (c *caller) SendBatch(context.Context, []queue.Message) []error {
	panic("accepting sends one message")
}

// ListActivities implements enqueue.Ledger. Lists may name what was never recorded, so they do not
// matter here.
func (c *caller) ListActivities(context.Context, []ledger.Listed) error { return nil }

// CreateActivity, CreateOrdered and DropActivity implement enqueue.Ledger.
func (c *caller) CreateActivity(ctx context.Context, _ ledger.Record) error {
	return c.call(ctx, "record", func() {})
}

func (c *caller) CreateOrdered(context.Context, ledger.Record, activity.ID, time.Time, bool) (ledger.Record, bool, error) {
	panic("this queue is not ordered")
}

func (c *caller) DropActivity(ctx context.Context, id activity.ID) error {
	return c.call(ctx, "drop", func() {
		if !c.s.sent[id].IsZero() {
			c.s.wrong("the record of activity %s is dropped, which is on the queue", id)
		}
	})
}

// FindMarker implements dedup.Store.
func (c *caller) FindMarker(context.Context, string) (*dedup.Marker, error) {
	panic("this queue is not ordered")
}

// ReserveMarker, ReplaceMarker and ReleaseMarker implement dedup.Store: each runs
// on the real store and on the model, and both must agree.
func (c *caller) ReserveMarker(ctx context.Context, k string, m dedup.Marker) (found *dedup.Marker, err error) {
	lost := c.call(ctx, "reserve", func() {
		found, err = c.s.store.ReserveMarker(ctx, k, m)
		c.s.agree("reserve", found, err, c.s.model.reserve(m, c.s.clock))
	})
	if lost != nil {
		c.s.loose = c.s.loose || c.open
		return nil, lost
	}
	return found, err
}

func (c *caller) ReplaceMarker(ctx context.Context, k, token string, m dedup.Marker) (err error) {
	lost := c.call(ctx, "replace", func() {
		err = c.s.store.ReplaceMarker(ctx, k, token, m)
		if err == nil && m.State == dedup.Pending {
			if token == m.Token {
				c.released = true
				c.s.seen["yielded"]++
			} else {
				c.tookOver = true
				c.s.seen["taken over"]++
			}
		}
		c.s.agree("replace", nil, err, c.s.model.replace(token, m))
	})
	if lost != nil {
		c.s.loose = c.s.loose || c.open
		return lost
	}
	return err
}

func (c *caller) ReleaseMarker(ctx context.Context, k, token string) (err error) {
	lost := c.call(ctx, "release", func() {
		err = c.s.store.ReleaseMarker(ctx, k, token)
		if err == nil {
			c.released = true
			c.s.seen["given back"]++
		}
		c.s.agree("release", nil, err, c.s.model.release(token))
	})
	if lost != nil {
		return lost
	}
	return err
}
