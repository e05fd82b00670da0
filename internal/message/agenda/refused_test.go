package agenda_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"fedpost/internal/engine/queue"
	"fedpost/internal/message/agenda"
)

// strict is a queue that refuses some bodies for good, and after one of them all others of its
// group, as queues with groups do.
type strict struct {
	queue.Sender
	sent []string
	bad  map[string]bool
}

func (q *strict) Capabilities() queue.Capabilities { return queue.FIFO.Of(queue.Normal) }

func (q *strict) Send(ctx context.Context, m queue.Message) error {
	return q.SendBatch(ctx, []queue.Message{m})[0]
}

func (q *strict) SendBatch(_ context.Context, ms []queue.Message) []error {
	errs, broken := make([]error, len(ms)), map[string]bool{}
	for i, m := range ms {
		switch {
		case q.bad[m.Body]:
			errs[i] = queue.ErrInvalid
		case m.OrderingKey != "" && broken[m.OrderingKey]:
			errs[i] = queue.ErrNotSent
		default:
			q.sent = append(q.sent, m.Body)
			continue
		}
		broken[m.OrderingKey] = true
	}
	return errs
}

// asides collects what was set aside.
type asides []string

func (a *asides) add(_ context.Context, t agenda.Task, why error) error {
	if why == nil {
		return errors.New("set aside without a reason")
	}
	*a = append(*a, t.ID)
	return nil
}

func TestWhatNoQueueTakesIsSetAsideAndTheRestGoesOn(t *testing.T) {
	for _, group := range []string{"", "group"} {
		b, o, a := newBook(), &strict{bad: map[string]bool{}}, &asides{}
		for i := range 400 {
			one := task(i)
			one.Group = group
			b.tasks[one.ID] = one
			o.bad[one.Body] = i < 300
		}
		damaged := task(400)
		damaged.Damaged, damaged.Group = errors.New("bits"), group
		b.tasks[damaged.ID] = damaged
		r := releaser(b, map[queue.Name]queue.Sender{queue.Normal: o})
		r.SetAside = a.add
		n, err := r.Release(t.Context(), noon)
		if n != 100 || err != nil || len(*a) != 301 || len(b.tasks) != 0 {
			t.Errorf("group %q: released %d, set %d aside, %d left: %v", group, n, len(*a), len(b.tasks), err)
		}
		if group != "" && !slices.IsSortedFunc(o.sent, func(x, y string) int { return len(x) - len(y) }) {
			t.Errorf("sent out of order: %v", o.sent)
		}
	}
}

func TestATaskThatCannotBeSetAsideStays(t *testing.T) {
	b, o := newBook(task(1), task(2)), &strict{bad: map[string]bool{"1": true}}
	r := releaser(b, map[queue.Name]queue.Sender{queue.Normal: o})
	outage := errors.New("outage")
	r.SetAside = func(context.Context, agenda.Task, error) error { return outage }
	n, err := r.Release(t.Context(), noon)
	if n != 1 || !errors.Is(err, outage) || len(b.tasks) != 1 {
		t.Errorf("released %d, %d left: %v", n, len(b.tasks), err)
	}
	if fmt.Sprint(o.sent) != "[2]" {
		t.Errorf("sent %v", o.sent)
	}
}
