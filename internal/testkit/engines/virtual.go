package engines

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"fedpost/internal/engine/queue"
)

// virtual is a server's queue that follows a test's clock. It keeps delays, visibility
// timeouts and the deduplication window itself: it sends messages without a delay, has
// the server hide received messages for longer than a test runs, and makes a message
// visible again when its visibility timeout is over. The server decides the rest: which
// messages the queue holds, in which order, and what a broken request does.
type virtual struct {
	capabilities queue.Capabilities
	server       opener // beside any plan
	now          func() time.Time
	visibility   time.Duration

	mu sync.Mutex
	// held are the messages that the server hides, by message id.
	held map[string]*receipt
	// notBefore is the time, by body, from which a delayed message may be received.
	// If a body is sent several times, the last send counts, because a send may
	// have failed unseen: a message may come late, but never early.
	notBefore map[string]time.Time
	// windows are the deduplication windows, by deduplication key.
	windows map[string]window
	// quiet: the last receive brought nothing, and no call since then can have
	// changed that. The server's queue is made only when something is sent to it.
	quiet bool
}

// opener opens a server's queue. The first call makes the queue on the server, because
// most tests use few of the queues.
type opener func() (queue.Queue, error)

// receipt is a message that the server hides.
type receipt struct {
	handle string
	until  time.Time
	// waits: the test has not received the message yet.
	waits bool
	// back: the server does not hide the message any more.
	back bool
	// own counts the receives that virtual made for itself.
	own int
}

// window is the deduplication window of one key.
type window struct {
	number int
	end    time.Time
}

func newVirtual(c queue.Capabilities, server opener, now func() time.Time, visibility time.Duration) *virtual {
	if visibility == 0 {
		visibility = 30 * time.Second // as on SQS
	}
	return &virtual{
		capabilities: c, server: server, now: now, visibility: visibility, quiet: true,
		held: map[string]*receipt{}, notBefore: map[string]time.Time{}, windows: map[string]window{},
	}
}

// through is a virtual queue whose sends and deletes go through another client, such
// as one under a plan of faults.
type through struct {
	*virtual
	way opener
}

// Capabilities implements queue.Sender.
func (v *virtual) Capabilities() queue.Capabilities { return v.capabilities }

// Send implements queue.Sender.
func (v *virtual) Send(ctx context.Context, m queue.Message) error {
	return through{v, v.server}.Send(ctx, m)
}

// SendBatch implements queue.Sender.
func (v *virtual) SendBatch(ctx context.Context, ms []queue.Message) []error {
	return through{v, v.server}.SendBatch(ctx, ms)
}

// Delete implements queue.Queue.
func (v *virtual) Delete(ctx context.Context, handle string) error {
	return through{v, v.server}.Delete(ctx, handle)
}

// ChangeVisibility implements queue.Queue.
func (v *virtual) ChangeVisibility(ctx context.Context, handle string, d time.Duration) error {
	return through{v, v.server}.ChangeVisibility(ctx, handle, d)
}

// Send implements queue.Sender.
func (t through) Send(ctx context.Context, m queue.Message) error {
	q, err := t.way()
	if err != nil {
		return err
	}
	defer t.stir()
	return q.Send(ctx, t.timeless(m))
}

// SendBatch implements queue.Sender.
func (t through) SendBatch(ctx context.Context, ms []queue.Message) []error {
	sent := make([]queue.Message, len(ms))
	for i, m := range ms {
		sent[i] = t.timeless(m)
	}
	q, err := t.way()
	if err != nil {
		return slices.Repeat([]error{err}, len(ms))
	}
	defer t.stir()
	return q.SendBatch(ctx, sent)
}

// stir records that the server may have a message to receive.
func (v *virtual) stir() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.quiet = false
}

// Delete implements queue.Queue.
func (t through) Delete(ctx context.Context, handle string) error {
	q, err := t.way()
	if err != nil {
		return err
	}
	err = q.Delete(ctx, handle)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.quiet = false // the next message of its group may be received
	if err == nil {
		for id, r := range t.held {
			if r.handle == handle {
				delete(t.held, id)
			}
		}
	}
	return err
}

// ChangeVisibility implements queue.Queue.
func (t through) ChangeVisibility(ctx context.Context, handle string, d time.Duration) error {
	if err := queue.CheckVisibility(d); err != nil {
		return err
	}
	q, err := t.way()
	if err != nil {
		return err
	}
	if err := q.ChangeVisibility(ctx, handle, hidden); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.held {
		if r.handle == handle {
			r.until = t.now().Add(d)
		}
	}
	return nil
}

// timeless records the delay and the deduplication window of a message to be sent, and
// returns the message without them.
func (v *virtual) timeless(m queue.Message) queue.Message {
	v.mu.Lock()
	defer v.mu.Unlock()
	if m.Check(v.capabilities.NativeDeduplication) != nil {
		return m // the server refuses it
	}
	if m.Delay > 0 {
		v.notBefore[m.Body] = v.now().Add(m.Delay)
		m.Delay = 0
	}
	if m.DeduplicationKey != "" {
		w := v.windows[m.OrderingKey+"\x00"+m.DeduplicationKey]
		if !v.now().Before(w.end) {
			w = window{w.number + 1, v.now().Add(queue.DedupWindow)}
			v.windows[m.OrderingKey+"\x00"+m.DeduplicationKey] = w
		}
		m.DeduplicationKey = fmt.Sprintf("%d %s", w.number, m.DeduplicationKey)
	}
	return m
}

// Receive implements queue.Queue. It does not wait for messages: the test's clock stands
// still during a call.
func (v *virtual) Receive(ctx context.Context, o queue.ReceiveOptions) ([]queue.Received, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	server, err := v.awake(ctx)
	if server == nil || err != nil {
		return nil, err
	}
	if o.Visibility == 0 {
		o.Visibility = v.visibility
	}
	var got []queue.Received
	for len(got) < o.Max && !v.quiet {
		rs, err := server.Receive(ctx, queue.ReceiveOptions{Max: o.Max - len(got), Visibility: hidden})
		if err != nil {
			return nil, err
		}
		v.quiet = len(rs) == 0
		for _, r := range rs {
			if v.hold(&r, o.Visibility) {
				got = append(got, r)
			}
		}
	}
	return got, nil
}

// hold records that the server hides a message, and reports whether the message may be
// received by the test's clock.
func (v *virtual) hold(r *queue.Received, visibility time.Duration) bool {
	h := v.held[r.ID]
	if h == nil {
		h = &receipt{}
		v.held[r.ID] = h
	}
	h.handle, h.back = r.Handle, false
	if due := v.notBefore[r.Body]; due.After(v.now()) {
		h.until, h.waits = due, true
		h.own++
		return false
	}
	h.until, h.waits = v.now().Add(visibility), false
	r.ReceiveCount -= h.own
	return true
}

// awake makes all messages visible whose time has come by the test's clock and returns
// the server's queue; nil if the queue has no messages.
func (v *virtual) awake(ctx context.Context) (queue.Queue, error) {
	if v.quiet && len(v.held) == 0 {
		return nil, nil
	}
	server, err := v.server()
	if err != nil {
		return nil, err
	}
	for id, r := range v.held {
		if r.back || r.until.After(v.now()) {
			continue
		}
		err := server.ChangeVisibility(ctx, r.handle, 0)
		if refused(err) {
			// A request whose answer was lost has deleted the message. If the
			// message still existed, the server would hide it and Depth would
			// count it.
			delete(v.held, id)
			continue
		}
		if err != nil {
			return nil, err // the next call tries again
		}
		v.quiet, r.back = false, true
	}
	return server, nil
}

// refused reports whether err is the server's word that a request cannot be met, and not a
// failure on the way to the server or in it.
func refused(err error) bool {
	var said smithy.APIError
	if !errors.As(err, &said) {
		return false
	}
	var answer *smithyhttp.ResponseError
	return said.ErrorFault() == smithy.FaultClient || errors.As(err, &answer) && answer.HTTPStatusCode()/100 == 4
}

// Depth implements queue.Queue. It asks the server only if the server may have messages
// that no receive has brought yet, because tests call Depth after every step of their
// clock.
func (v *virtual) Depth(ctx context.Context) (queue.Depth, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var d queue.Depth
	server, err := v.awake(ctx)
	if server == nil || err != nil {
		return d, err
	}
	if !v.quiet {
		if d, err = server.Depth(ctx); err != nil {
			return d, err
		}
		d.InFlight, v.quiet = 0, d.Visible == 0
	}
	for _, r := range v.held {
		switch {
		case r.back:
		case r.waits:
			d.Delayed++
		default:
			d.InFlight++
		}
	}
	return d, nil
}
