package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"fedpost/internal/engine/queue"
)

// mq is one queue.
type mq struct {
	*Engine
	name    queue.Name
	config  queue.Config
	fifo    bool
	order   *queue.FairOrder
	all     map[int64]*stored
	groups  map[string]*group
	windows map[string]time.Time
	changed chan struct{} // closed at the next change
	// first is the time from which a message can be received, unless the queue has
	// changed since.
	first   time.Time
	stirred bool
}

// stored is a message.
type stored struct {
	queue.Message
	seq      int64
	sent     time.Time
	visible  time.Time
	received time.Time
	receives int
}

// group is a message group of a FIFO queue: its messages in order, and the time from
// which its first message can be received. The group that has been free for the longest
// is served first.
type group struct {
	messages []*stored
	free     time.Time
	turn     int64
}

// Capabilities implements queue.Sender.
func (q *mq) Capabilities() queue.Capabilities { return q.typ.Of(q.name) }

// Send implements queue.Sender.
func (q *mq) Send(ctx context.Context, m queue.Message) error {
	return q.SendBatch(ctx, []queue.Message{m})[0]
}

// SendBatch implements queue.Sender.
func (q *mq) SendBatch(ctx context.Context, ms []queue.Message) []error {
	errs := make([]error, len(ms))
	q.mu.Lock()
	defer q.mu.Unlock()
	broken := map[string]bool{}
	offsets := q.order.Offsets(ms, q.now())
	for i, m := range ms {
		err := m.Check(q.fifo)
		if err == nil && ctx.Err() != nil {
			err = fmt.Errorf("send to %s: %w: %w", q.name, queue.ErrNotSent, ctx.Err())
		}
		if err == nil && q.fifo && broken[m.OrderingKey] {
			err = fmt.Errorf("%w: an earlier message of its group failed", queue.ErrNotSent)
		}
		if err != nil {
			errs[i], broken[m.OrderingKey] = err, true
			continue
		}
		q.insert(m, time.Duration(offsets[i])*time.Millisecond)
	}
	q.wakeReceivers()
	return errs
}

func (q *mq) insert(m queue.Message, before time.Duration) {
	now := q.now().UTC().Round(0)
	if q.fifo {
		window := m.OrderingKey + "\x00" + m.DeduplicationKey
		if q.windows[window].After(now) {
			return
		}
		q.windows[window] = now.Add(queue.DedupWindow)
	}
	q.seq++
	m.Attributes = maps.Clone(m.Attributes)
	s := &stored{Message: m, seq: q.seq, sent: now, visible: now.Add(m.Delay - before)}
	s.Delay = 0
	q.add(s, now)
}

func (q *mq) add(s *stored, now time.Time) {
	q.all[s.seq], q.stirred = s, true
	q.undo = nil
	if !q.fifo {
		return
	}
	g := q.groups[s.OrderingKey]
	if g == nil {
		g = &group{free: now, turn: s.seq}
		q.groups[s.OrderingKey] = g
	}
	g.messages = append(g.messages, s)
}

func (q *mq) drop(s *stored) {
	delete(q.all, s.seq)
	q.stirred = true
	if g := q.groups[s.OrderingKey]; g != nil {
		g.messages = slices.DeleteFunc(g.messages, func(o *stored) bool { return o == s })
		q.settle(s.OrderingKey)
	}
}

// restore undoes drop.
func (q *mq) restore(s *stored) {
	q.add(s, q.now())
	if g := q.groups[s.OrderingKey]; g != nil {
		slices.SortFunc(g.messages, func(a, b *stored) int { return cmp.Compare(a.seq, b.seq) })
		q.settle(s.OrderingKey)
	}
}

// settle brings a group's times in line with its messages.
func (q *mq) settle(name string) {
	g := q.groups[name]
	switch {
	case g == nil:
	case len(g.messages) == 0:
		delete(q.groups, name)
	default:
		g.free = g.messages[0].visible
		if now := q.now(); g.free.Before(now) {
			g.free = now
		}
		q.seq++
		g.turn = q.seq
	}
}

func (q *mq) wakeReceivers() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// Receive implements queue.Queue.
func (q *mq) Receive(ctx context.Context, o queue.ReceiveOptions) ([]queue.Received, error) {
	if o.Max < 1 || o.Max > queue.MaxBatch || o.Wait < 0 || o.Wait > 20*time.Second {
		return nil, fmt.Errorf("receive from %s: %w: %d messages within %s", q.name, queue.ErrInvalid, o.Max, o.Wait)
	}
	if err := queue.CheckVisibility(o.Visibility); err != nil {
		return nil, fmt.Errorf("receive from %s: %w", q.name, err)
	}
	if o.Visibility == 0 {
		o.Visibility = q.config.Visibility
	}
	var timeout <-chan time.Time
	if o.Wait > 0 {
		timer := time.NewTimer(o.Wait)
		defer timer.Stop()
		timeout = timer.C
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		got, changed := q.take(o)
		if len(got) > 0 || o.Wait == 0 {
			return got, nil
		}
		select {
		case <-changed:
		case <-timeout:
			o.Wait = 0
		case <-ctx.Done():
		}
	}
}

func (q *mq) take(o queue.ReceiveOptions) ([]queue.Received, <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now().UTC().Round(0)
	q.stirred = true
	var got []queue.Received
	if q.fifo {
		for len(got) < o.Max {
			name, ok := q.nextGroup(now)
			if !ok {
				break
			}
			got = q.run(name, o, now, got)
		}
		return got, q.changed
	}
	q.retake(now)
	var visible []*stored
	for _, m := range q.all {
		if !m.visible.After(now) && m.sent.After(now.Add(-q.config.Retention)) {
			visible = append(visible, m)
		}
	}
	slices.SortFunc(visible, func(a, b *stored) int {
		return cmp.Or(a.visible.Compare(b.visible), cmp.Compare(a.receives, b.receives), cmp.Compare(a.seq, b.seq))
	})
	for _, m := range visible {
		if len(got) == o.Max {
			break
		}
		got = q.hand(m, o, now, got)
	}
	return got, q.changed
}

// retake dates back retries and messages that had a delay, as new messages of their groups.
func (q *mq) retake(now time.Time) {
	from, to, ok := q.order.Due(now)
	if !ok {
		return
	}
	var due []*stored
	for _, m := range q.all {
		if m.visible.After(m.sent) && m.visible.After(now.Add(-from)) && !m.visible.After(now.Add(-to)) {
			due = append(due, m)
		}
	}
	slices.SortFunc(due, func(a, b *stored) int { return cmp.Or(a.visible.Compare(b.visible), cmp.Compare(a.seq, b.seq)) })
	due = due[:min(len(due), queue.MostDue)]
	groups := make([]string, len(due))
	for i, m := range due {
		groups[i] = m.Group()
	}
	for i, before := range q.order.OffsetsAgain(groups, now) {
		if at := now.Add(-time.Duration(before) * time.Millisecond); at.Before(due[i].visible) {
			due[i].visible = at
		}
	}
}

// nextGroup returns the group that has been free for the longest.
func (q *mq) nextGroup(now time.Time) (string, bool) {
	best, found := "", false
	for name, g := range q.groups {
		if g.free.After(now) {
			continue
		}
		b := q.groups[best]
		if !found || cmp.Or(g.free.Compare(b.free), cmp.Compare(g.turn, b.turn)) < 0 {
			best, found = name, true
		}
	}
	return best, found
}

// run hands out a group's messages from the first to the first that is hidden.
func (q *mq) run(name string, o queue.ReceiveOptions, now time.Time, got []queue.Received) []queue.Received {
	for _, m := range slices.Clone(q.groups[name].messages) {
		if len(got) == o.Max || m.visible.After(now) {
			break
		}
		if !m.sent.After(now.Add(-q.config.Retention)) {
			q.drop(m)
			continue
		}
		got = q.hand(m, o, now, got)
	}
	q.settle(name)
	return got
}

// hand returns got with m appended. If m was received too often, hand moves m to the
// dead-letter queue instead.
func (q *mq) hand(m *stored, o queue.ReceiveOptions, now time.Time, got []queue.Received) []queue.Received {
	if q.config.MaxReceives > 0 && m.receives >= q.config.MaxReceives {
		q.drop(m)
		m.visible, m.receives = now, 0
		if q.fifo {
			m.sent = now
		}
		dead := q.queues[q.name.DeadLetter()]
		dead.add(m, now)
		dead.wakeReceivers()
		return got
	}
	q.undo = nil
	m.receives++
	m.received, m.visible = now, now.Add(o.Visibility)
	r := queue.Received{
		ID: fmt.Sprintf("%020d", m.seq), Handle: fmt.Sprintf("%s.%d.%d", q.name, m.seq, m.receives), Message: m.Message,
		ReceiveCount: m.receives, SentAt: m.sent,
	}
	if q.fifo {
		r.Sequence = r.ID
	}
	r.Attributes = maps.Clone(m.Attributes)
	return append(got, r)
}

func (q *mq) parse(handle string) (int64, error) {
	parts := strings.Split(handle, ".")
	if len(parts) == 3 && parts[0] == string(q.name) {
		if seq, err := strconv.ParseInt(parts[1], 10, 64); err == nil {
			return seq, nil
		}
	}
	return 0, fmt.Errorf("%w: %q is no receipt handle of %s", queue.ErrInvalid, handle, q.name)
}

// Delete implements queue.Queue.
func (q *mq) Delete(ctx context.Context, handle string) error {
	seq, err := q.parse(handle)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("delete from %s: %w", q.name, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if m := q.all[seq]; m != nil {
		q.drop(m)
		q.wakeReceivers()
		q.undo = append(q.undo, func() { q.restore(m) })
	}
	return nil
}

// ChangeVisibility implements queue.Queue.
func (q *mq) ChangeVisibility(ctx context.Context, handle string, d time.Duration) error {
	seq, err := q.parse(handle)
	if err == nil {
		err = queue.CheckVisibility(d)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("change visibility in %s: %w", q.name, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now().UTC().Round(0)
	m := q.all[seq]
	switch {
	case m == nil:
		return fmt.Errorf("%w: message %d is not there any more", queue.ErrInvalid, seq)
	case !m.visible.After(now) || m.receives == 0:
		return fmt.Errorf("%w: message %d is not in flight", queue.ErrInvalid, seq)
	case now.Add(d).After(m.received.Add(queue.MaxVisibility)):
		return fmt.Errorf("%w: message %d would be hidden for over %s", queue.ErrInvalid, seq, queue.MaxVisibility)
	}
	before := m.visible
	q.undo = append(q.undo, func() {
		m.visible, q.stirred = before, true
		q.settle(m.OrderingKey)
	})
	m.visible, q.stirred = now.Add(d), true
	q.settle(m.OrderingKey)
	q.wakeReceivers()
	return nil
}

// Depth implements queue.Queue.
func (q *mq) Depth(ctx context.Context) (queue.Depth, error) {
	if err := ctx.Err(); err != nil {
		return queue.Depth{}, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	var d queue.Depth
	now := q.now()
	for _, m := range q.all {
		switch {
		case !m.visible.After(now):
			d.Visible++
		case m.receives > 0:
			d.InFlight++
		default:
			d.Delayed++
		}
	}
	return d, nil
}
