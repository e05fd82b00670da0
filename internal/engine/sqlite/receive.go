package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/wakeup"
)

func (q *mq) Receive(ctx context.Context, o queue.ReceiveOptions) ([]queue.Received, error) {
	if q.writer == nil {
		return nil, errToRead
	}
	var looked int64
	return q.wake.Receive(ctx, wakeup.Source{
		Name: q.name, Config: q.config, Closed: q.writer.stopped, ErrClosed: ErrClosed,
		Take: func(ctx context.Context, o queue.ReceiveOptions, reads func()) ([]queue.Received, error) {
			looked = q.now().UnixMilli()
			return q.take(ctx, o, reads)
		},
		Park: func(o queue.ReceiveOptions, reads func()) wakeup.Parked { return q.taking(o, reads) },
		Next: func(ctx context.Context) (time.Duration, error) { return q.next(ctx, looked) },
	}, o)
}

// next returns how long it is until the next hidden message becomes visible. The
// wait may be over already: no receiver is woken when a visibility timeout ends.
func (q *mq) next(ctx context.Context, looked int64) (time.Duration, error) {
	query := `SELECT min(visible) FROM message WHERE queue = ? AND visible > ?`
	if q.fifo {
		query = `SELECT min(free) FROM fifo_group WHERE queue = ? AND free > ?`
	}
	var at *int64
	err := q.read(ctx, func(s *session) error {
		_, err := s.one(query, []any{string(q.name), looked}, &at)
		return err
	})
	if err != nil || at == nil {
		return queue.MaxVisibility, err
	}
	return time.Duration(*at-q.now().UnixMilli()) * time.Millisecond, nil
}

// stored is a message that may be received.
type stored struct {
	seq      int64
	receives int
	group    string
	got      queue.Received
}

// take receives what is visible now. It calls reads when it begins to read the queue.
func (q *mq) take(ctx context.Context, o queue.ReceiveOptions, reads func()) ([]queue.Received, error) {
	t := q.taking(o, reads)
	t.err = q.writer.submit(ctx, t.job)
	return t.Got(ctx)
}

// taking is one receive.
type taking struct {
	*mq
	*job
	max        int
	visibility time.Duration

	s    *session
	now  int64
	got  []queue.Received
	dead int // messages that became dead letters
}

func (q *mq) taking(o queue.ReceiveOptions, reads func()) *taking {
	t := &taking{mq: q, max: o.Max, visibility: o.Visibility}
	// A receive waits for the disk, or messages that wait would fill the memory.
	t.job = newJob(synced, func(s *session) error {
		reads()
		t.s, t.now, t.got, t.dead = s, q.now().UnixMilli(), nil, 0
		if q.fifo {
			return t.ordered()
		}
		return t.standard()
	})
	return t
}

// Done implements wakeup.Parked.
func (t *taking) Done() <-chan struct{} { return t.done }

// Got implements wakeup.Parked.
func (t *taking) Got(context.Context) ([]queue.Received, error) {
	if t.err != nil {
		return nil, t.err
	}
	if t.dead > 0 {
		t.wake.Wake(t.name.DeadLetter(), t.dead)
		t.wake.Shift(t.name, 0) // the next message of the group may be hidden for a shorter time
	}
	return t.got, nil
}

const selectStored = `SELECT m.seq, m.receives, m.grp, m.dedup, m.sent, b.body, b.attributes
	FROM message m JOIN body b ON b.seq = m.seq `

func (t *taking) standard() error {
	if err := t.retake(); err != nil {
		return err
	}
	return t.all(`WHERE m.queue = ? AND m.visible <= ? AND m.sent > ? ORDER BY m.visible, m.receives, m.seq LIMIT ? + 0`,
		string(t.name), t.now, t.oldest())
}

// retake dates back retries and messages that had a delay, as if they were new messages of their
// groups.
func (t *taking) retake() error {
	now := time.UnixMilli(t.now)
	from, to, ok := t.order.Due(now)
	if !ok {
		return nil
	}
	var seqs []int64
	var groups []string
	err := t.s.each(`SELECT seq, grp FROM message WHERE queue = ? AND visible > ? AND visible <= ? AND visible > sent ORDER BY visible LIMIT ? + 0`,
		[]any{string(t.name), t.now - from.Milliseconds(), t.now - to.Milliseconds(), queue.MostDue}, func(scan func(...any) error) error {
			var seq int64
			var group string
			if err := scan(&seq, &group); err != nil {
				return err
			}
			seqs, groups = append(seqs, seq), append(groups, group)
			return nil
		})
	if err != nil {
		return err
	}
	for i, before := range t.order.OffsetsAgain(groups, now) {
		if err := t.s.exec(`UPDATE message SET visible = min(visible, ?) WHERE seq = ?`, t.now-before, seqs[i]); err != nil {
			return err
		}
	}
	return nil
}

// all hands out the messages that a query finds until the receive is full. A
// message that becomes a dead letter does not count. A message that was handed out
// is hidden, so the query does not find it again.
func (t *taking) all(where string, args ...any) error {
	for len(t.got) < t.max {
		want := t.max - len(t.got)
		found, err := t.load(selectStored+where, append(slices.Clone(args), want)...)
		if err != nil {
			return err
		}
		for _, m := range found {
			if err := t.hand(m); err != nil {
				return err
			}
		}
		if len(found) < want {
			return nil
		}
	}
	return nil
}

// ordered takes messages of each free group, from the group's first message to the first one in
// flight, as SQS does: a message is held by messages before it that are in flight, not by those
// after it. The messages of a group that one receive returns are in order. All later messages of
// the group are held until the returned ones are deleted or visible again.
func (t *taking) ordered() error {
	for len(t.got) < t.max {
		groups, err := freeGroups(t.s, t.name, t.now, t.max)
		if err != nil || len(groups) == 0 {
			return err
		}
		for _, g := range groups {
			if len(t.got) == t.max {
				return nil
			}
			if err := t.run(g); err != nil {
				return err
			}
		}
	}
	return nil
}

// run takes from one free group. Afterwards the group is held, or has no messages.
func (t *taking) run(group string) error {
	// An expired message would keep its group in the list of groups for ever.
	if err := discard(t.s, `queue = ? AND grp = ? AND fifo = 1 AND sent <= ?`, string(t.name), group, t.oldest()); err != nil {
		return err
	}
	end := int64(math.MaxInt64)
	if _, err := t.s.one(`SELECT coalesce(min(seq), ?) FROM message WHERE queue = ? AND grp = ? AND fifo = 1 AND visible > ?`,
		[]any{end, string(t.name), group, t.now}, &end); err != nil {
		return err
	}
	if err := t.all(`WHERE m.queue = ? AND m.grp = ? AND m.fifo = 1 AND m.visible <= ? AND m.seq < ? ORDER BY m.seq LIMIT ? + 0`,
		string(t.name), group, t.now, end); err != nil {
		return err
	}
	_, err := settleGroup(t.s, t.name, group, t.now)
	return err
}

// oldest is the sending time up to which messages are past their retention.
func (t *taking) oldest() int64 { return t.now - t.config.Retention.Milliseconds() }

func (t *taking) load(query string, args ...any) ([]stored, error) {
	var found []stored
	err := t.s.each(query, args, func(scan func(...any) error) error {
		var m stored
		var sent int64
		var attributes string
		if err := scan(&m.seq, &m.receives, &m.group, &m.got.DeduplicationKey, &sent, &m.got.Body, &attributes); err != nil {
			return err
		}
		m.got.OrderingKey = m.group
		m.got.SentAt = time.UnixMilli(sent).UTC()
		if attributes != "" {
			if err := json.Unmarshal([]byte(attributes), &m.got.Attributes); err != nil {
				return fmt.Errorf("attributes of message %d: %w", m.seq, err)
			}
		}
		found = append(found, m)
		return nil
	})
	return found, err
}

// hand gives m to the receiver, or to the dead-letter queue if m was received too
// often.
func (t *taking) hand(m stored) error {
	if t.config.MaxReceives > 0 && m.receives >= t.config.MaxReceives {
		t.dead++
		return t.moveToDead(m)
	}
	if err := t.s.exec(`UPDATE message SET visible = ?, receives = receives + 1, received = ? WHERE seq = ?`,
		t.now+queue.CeilMilli(t.visibility), t.now, m.seq); err != nil {
		return err
	}
	m.got.ID = queue.MessageID(m.seq)
	m.got.ReceiveCount = m.receives + 1
	m.got.Handle = queue.Handle{Queue: t.name, Seq: m.seq, Receipt: m.got.ReceiveCount}.String()
	if t.fifo {
		m.got.Sequence = queue.MessageID(m.seq)
	}
	t.got = append(t.got, m.got)
	return nil
}
