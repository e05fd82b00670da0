package engines

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"fedpost/internal/engine/queue"
)

// virtual is a server's queue in a test's time. Delays, visibility timeouts and
// the deduplication window are kept here: the server gets messages without a
// delay, hides those that were received for longer than a test takes, and is
// told when their time is over. All the rest is the server's: what is in the
// queue, in which order, and what it does with a request that broke.
type virtual struct {
	capabilities queue.Capabilities
	server       opener // beside any plan
	now          func() time.Time
	visibility   time.Duration

	mu sync.Mutex
	// held are messages that the server hides, by their id.
	held map[string]*receipt
	// notBefore is when a delayed body may be received. Of several sends of a
	// body the last counts, as nobody knows which of them were carried out:
	// late is allowed, early is not.
	notBefore map[string]time.Time
	// windows are those of deduplication keys.
	windows map[string]window
	// quiet: the server has nothing to receive, as far as it was asked since the
	// last call that could have changed it. A queue that nothing was ever sent to
	// is not even made.
	quiet bool
}

// opener opens a server's queue. At the first call for a queue that makes it, as
// most tests use few of them.
type opener func() (queue.Queue, error)

// receipt is a message that the server hides.
type receipt struct {
	handle string
	until  time.Time
	// waits: nobody has received it yet.
	waits bool
	// back: the server does not hide it any more.
	back bool
	// own counts the receives that were not the test's.
	own int
}

// window is one of deduplication.
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

// through is a virtual queue whose sends and deletes go by another way.
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

// stir notes that the server may have something to receive.
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
	t.quiet = false // its group may go on
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

// timeless notes the times of a message that is to be sent, and takes them off.
func (v *virtual) timeless(m queue.Message) queue.Message {
	v.mu.Lock()
	defer v.mu.Unlock()
	if m.Check(v.capabilities.NativeDeduplication) != nil {
		return m // to be refused
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

// Receive implements queue.Queue. It does not wait: time stands still meanwhile.
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

// hold notes that the server hides a message, and reports whether its time to be
// received has come.
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

// awake returns the server's queue with all visible that should be; nil if it has
// nothing at all.
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
		if err := server.ChangeVisibility(ctx, r.handle, 0); err != nil {
			// It was deleted by a request whose answer was lost. Were it still
			// there, the server would go on hiding it, and Depth tell of it.
			delete(v.held, id)
			continue
		}
		v.quiet, r.back = false, true
	}
	return server, nil
}

// Depth implements queue.Queue. The server is asked only if it may have
// something that was not seen yet: tests ask after every step of their time.
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
