package deliver

import (
	"container/list"
	"context"
	"math"
	"sync"

	"fedpost/internal/engine/queue"
)

// backlog bounds the recipients that this process has taken up from a queue and that wait for
// nothing but one of the queue's places (Limits.PerQueue). Taking up more would begin no
// attempt sooner, but costs memory: up receives 20,000 recipients of one activity at once.
//
// Who waits for anything else, such as a place of its host, does not count. So a host that
// hangs keeps no other delivery from being taken up.
type backlog struct {
	mu     sync.Mutex
	queues map[queue.Name]*ahead
}

// ahead is what counts of a queue, and the messages that wait to be taken up.
type ahead struct {
	recipients int
	line       list.List // of *ticket
}

// ticket is a message's part of a backlog. A nil ticket is of a queue without a bound.
type ticket struct {
	of         *backlog
	queue      queue.Name
	most       int
	recipients int // that count
	taken      chan struct{}
}

func newBacklog() *backlog { return &backlog{queues: map[queue.Name]*ahead{}} }

// admit waits until fewer than most recipients of a queue count; then those of a further
// message do, which is the ticket. It returns false if ctx ends before.
func (b *backlog) admit(ctx context.Context, q queue.Name, most, recipients int) (*ticket, bool) {
	if most <= 0 {
		return nil, true
	}
	t := &ticket{of: b, queue: q, most: most, recipients: recipients, taken: make(chan struct{})}
	b.mu.Lock()
	a, ok := b.queues[q]
	if !ok {
		a = &ahead{}
		b.queues[q] = a
	}
	place := a.line.PushBack(t)
	a.goOn()
	b.mu.Unlock()
	select {
	case <-t.taken:
		return t, true
	default:
	}
	select {
	case <-t.taken:
		return t, true
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-t.taken:
		return t, true
	default:
	}
	a.line.Remove(place)
	return nil, false
}

// goOn takes up messages that wait.
func (a *ahead) goOn() {
	for first := a.line.Front(); first != nil && a.recipients < first.Value.(*ticket).most; first = a.line.Front() {
		t := a.line.Remove(first).(*ticket)
		a.recipients += t.recipients
		close(t.taken)
	}
}

// pass says that n recipients of t do not count any more.
func (t *ticket) pass(n int) {
	if t == nil || n <= 0 {
		return
	}
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	n = min(n, t.recipients)
	a := t.of.queues[t.queue]
	t.recipients -= n
	a.recipients -= n
	a.goOn()
}

// end says that none of t counts any more.
func (t *ticket) end() {
	t.pass(math.MaxInt)
}

// takeUp waits until the backlog of this queue has room for a message, while an attempt would
// still fit into the invocation.
func (v *invocation) takeUp(ctx context.Context, recipients int) (*ticket, bool) {
	if !v.end.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(0, v.end.Sub(v.Now())-v.Limits.Attempt-v.Limits.Reserve))
		defer cancel()
	}
	return v.backlog.admit(ctx, v.from, v.Limits.PerQueue, recipients)
}
