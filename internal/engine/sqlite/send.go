package sqlite

import (
	"context"
	"encoding/json"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/wakeup"
)

type mq struct {
	*Engine
	name   queue.Name
	config queue.Config
	fifo   bool
	order  *queue.FairOrder // nil: the queue is not fair
}

func (q *mq) Capabilities() queue.Capabilities { return q.typ.Of(q.name) }

func (q *mq) Send(ctx context.Context, m queue.Message) error {
	if err := m.Check(q.fifo); err != nil {
		return err
	}
	return q.insert(ctx, []queue.Message{m})
}

func (q *mq) SendBatch(ctx context.Context, ms []queue.Message) []error {
	return queue.InPortions(ms, q.fifo, func(some []queue.Message) error { return q.insert(ctx, some) })
}

// insert writes all of ms or none.
func (q *mq) insert(ctx context.Context, ms []queue.Message) error {
	offsets := q.order.Offsets(ms, q.now())
	j := newJob(synced, func(s *session) error {
		now := q.now().UnixMilli()
		for i, m := range ms {
			if err := q.insertOne(s, m, now, now-offsets[i]+queue.CeilMilli(m.Delay)); err != nil {
				return err
			}
		}
		return nil
	})
	visible, then := wakeup.Visible(ms)
	if visible == 1 {
		j.to = q.name
	}
	err := q.submit(ctx, j)
	if err == nil && visible > 1 {
		q.wake.Wake(q.name, visible)
	}
	if err == nil && visible < len(ms) {
		q.wake.Shift(q.name, then)
	}
	return queue.SendError(q.name, err)
}

func (q *mq) insertOne(s *session, m queue.Message, now, visible int64) error {
	r := row{queue: q.name, sent: now, visible: visible, body: m.Body}
	if m.OrderingKey != "" {
		r.group = queue.Digest(m.OrderingKey)
	}
	if len(m.Attributes) > 0 {
		b, err := json.Marshal(m.Attributes)
		if err != nil {
			return err
		}
		r.attributes = string(b)
	}
	if q.fifo {
		r.dedup = queue.Digest(m.OrderingKey, m.DeduplicationKey)
		first, err := remember(s, q.name, r.dedup, now)
		if err != nil || !first {
			return err
		}
	}
	return r.insert(s, q.fifo)
}

// remember stores a deduplication id and reports whether it is new in its window.
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
	queue                          queue.Name
	group, dedup, body, attributes string
	sent, visible                  int64
}

func (r row) insert(s *session, fifo bool) error {
	res, err := s.change(`INSERT INTO message (queue, fifo, grp, dedup, sent, visible) VALUES (?, ?, ?, ?, ?, ?)`,
		string(r.queue), fifo, r.group, r.dedup, r.sent, r.visible)
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
