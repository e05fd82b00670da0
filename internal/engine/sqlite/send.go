package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"fedpost/internal/engine/queue"
)

// mq is one queue of the engine.
type mq struct {
	*Engine
	name   queue.Name
	config QueueConfig
	fifo   bool
}

// Capabilities implements queue.Sender.
func (q *mq) Capabilities() queue.Capabilities { return q.typ.Of(q.name) }

// Send implements queue.Sender.
func (q *mq) Send(ctx context.Context, m queue.Message) error {
	if err := m.Check(q.fifo); err != nil {
		return err
	}
	return q.insert(ctx, []queue.Message{m})
}

// SendBatch implements queue.Sender. Messages are written in portions of SQS's
// size, so that a long batch does not hold up other writers.
func (q *mq) SendBatch(ctx context.Context, ms []queue.Message) []error {
	errs := make([]error, len(ms))
	broken := make(map[string]bool) // groups of which a message failed
	var portion []queue.Message
	var indices []int
	size := 0
	flush := func() {
		if len(portion) == 0 {
			return
		}
		if err := q.insert(ctx, portion); err != nil {
			for _, i := range indices {
				errs[i] = err
				broken[ms[i].OrderingKey] = true
			}
		}
		portion, indices, size = portion[:0], indices[:0], 0
	}
	for i, m := range ms {
		err := m.Check(q.fifo)
		if err == nil && (len(portion) == queue.MaxBatch || size+m.Size() > queue.MaxBytes) {
			flush()
		}
		if err == nil && q.fifo && broken[m.OrderingKey] {
			err = fmt.Errorf("%w: an earlier message of its group failed", queue.ErrNotSent)
		}
		if err != nil {
			errs[i] = err
			broken[m.OrderingKey] = true
			continue
		}
		portion, indices, size = append(portion, m), append(indices, i), size+m.Size()
	}
	flush()
	return errs
}

// insert writes all of ms or none.
func (q *mq) insert(ctx context.Context, ms []queue.Message) error {
	err := q.write(ctx, func(s *session) error {
		now := q.now().UnixMilli()
		for _, m := range ms {
			if err := q.insertOne(s, m, now); err != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case err == nil:
		q.announce(ms)
		return nil
	case errors.Is(err, errUncertain):
		return fmt.Errorf("send to %s: %w", q.name, err)
	}
	return fmt.Errorf("send to %s: %w: %w", q.name, queue.ErrNotSent, err)
}

// announce wakes receivers for messages that were written.
func (q *mq) announce(ms []queue.Message) {
	now := 0
	for _, m := range ms {
		if m.Delay == 0 {
			now++
		}
	}
	q.wake.ring(q.name, now)
	if now < len(ms) {
		q.wake.shift(q.name)
	}
}

func (q *mq) insertOne(s *session, m queue.Message, now int64) error {
	r := row{queue: q.name, sent: now, visible: now + ceilMilli(m.Delay), body: m.Body}
	if m.OrderingKey != "" {
		r.group = hashed(m.OrderingKey)
	}
	if len(m.Attributes) > 0 {
		b, err := json.Marshal(m.Attributes)
		if err != nil {
			return err
		}
		r.attributes = string(b)
	}
	if q.fifo {
		r.dedup = hashed(m.OrderingKey, m.DeduplicationKey)
		first, err := remember(s, q.name, r.dedup, now)
		if err != nil || !first {
			return err
		}
	}
	return r.insert(s, q.fifo)
}

// remember notes a deduplication id and reports whether it is new in its window.
func remember(s *session, n queue.Name, id string, now int64) (bool, error) {
	// The window runs from the first message: a duplicate does not extend it.
	res, err := s.change(`INSERT INTO dedup (queue, id, until) VALUES (?, ?, ?)
		ON CONFLICT (queue, id) DO UPDATE SET until = excluded.until WHERE until <= ?`,
		string(n), id, now+queue.DedupWindow.Milliseconds(), now)
	if err != nil {
		return false, err
	}
	changed, err := res.RowsAffected()
	return changed > 0, err
}

// row is a message as it is stored.
type row struct {
	queue, source                  queue.Name
	group, dedup, body, attributes string
	sent, visible                  int64
}

func (r row) insert(s *session, fifo bool) error {
	res, err := s.change(`INSERT INTO message (queue, source, fifo, grp, dedup, sent, visible) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		string(r.queue), string(r.source), fifo, r.group, r.dedup, r.sent, r.visible)
	if err != nil {
		return err
	}
	seq, err := res.LastInsertId()
	if err != nil {
		return err
	}
	if err := s.exec(`INSERT INTO body (seq, body, attributes) VALUES (?, ?, ?)`, seq, r.body, r.attributes); err != nil {
		return err
	}
	if fifo {
		return openGroup(s, r.queue, r.group, r.sent)
	}
	return nil
}

// hashed derives an id from any strings. The AWS engine does the same, because SQS
// takes at most 128 characters of a small set.
func hashed(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// ceilMilli rounds up: nothing becomes visible before it was asked for.
func ceilMilli(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
