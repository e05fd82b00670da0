package postgres

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/jackc/pgx/v5"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/wakeup"
)

// mq is one queue of the engine. The calls of FIFO queues lock rows of groups, and have
// transactions of their own.
type mq struct {
	*Engine
	name   queue.Name
	config queue.Config
	fifo   bool
	leases string           // the table of its messages' leases
	order  *queue.FairOrder // nil: the queue is not fair
}

func (q *mq) Capabilities() queue.Capabilities { return q.typ.Of(q.name) }

// columns are the messages of a portion, as the arrays of a statement.
type columns struct {
	groups, dedups, bodies, attributes [][]byte
	delays                             []int64
}

func (q *mq) columnsOf(ms []queue.Message) (c columns, err error) {
	offsets := q.order.Offsets(ms, q.clock.moment())
	for i, m := range ms {
		var group, dedup, attributes []byte
		if m.OrderingKey != "" {
			group = digest(m.OrderingKey)
		}
		if m.DeduplicationKey != "" {
			dedup = digest(m.OrderingKey, m.DeduplicationKey)
		}
		if len(m.Attributes) > 0 {
			if attributes, err = json.Marshal(m.Attributes); err != nil {
				return c, err
			}
		}
		c.groups, c.dedups, c.attributes = append(c.groups, group), append(c.dedups, dedup), append(c.attributes, attributes)
		c.bodies, c.delays = append(c.bodies, []byte(m.Body)), append(c.delays, queue.CeilMilli(m.Delay)-offsets[i])
	}
	return c, nil
}

// digest is queue.Digest in half the bytes.
func digest(parts ...string) []byte {
	b, _ := hex.DecodeString(queue.Digest(parts...)) // it is hexadecimal
	return b
}

func (q *mq) Send(ctx context.Context, m queue.Message) error {
	return q.SendBatch(ctx, []queue.Message{m})[0]
}

func (q *mq) SendBatch(ctx context.Context, ms []queue.Message) []error {
	insert := q.insertStandard
	if q.fifo {
		insert = q.insertFIFO
	}
	return queue.InPortions(ms, q.fifo, func(some []queue.Message) error {
		visible, then := wakeup.Visible(some)
		err := insert(ctx, some)
		if err == nil && (q.fifo || visible > 1) {
			q.wakeReceivers(q.name, visible)
		}
		if err == nil && visible < len(some) {
			q.wake.Shift(q.name, then)
		}
		return queue.SendError(q.name, err)
	})
}

const insertStandard = withNow + `, numbered AS (
  SELECT nextval('fedpost.message_seq') AS seq, given.* FROM (
    SELECT * FROM unnest($3::bytea[], $4::bytea[], $5::bytea[], $6::bigint[]) WITH ORDINALITY AS u (grp, body, attributes, delay, n) ORDER BY n
  ) given
), message AS (
  INSERT INTO fedpost.message (seq, grp, body, attributes) SELECT seq, grp, body, attributes FROM numbered
)
INSERT INTO fedpost.lease (queue, seq, sent, visible) SELECT $2, seq, now, now + delay FROM numbered, t`

func (q *mq) insertStandard(ctx context.Context, ms []queue.Message) error {
	c, err := q.columnsOf(ms)
	if err != nil {
		return err
	}
	o := one("send", func(b *pgx.Batch) {
		b.Queue(q.sql(insertStandard), q.clock.arguments(), string(q.name), c.groups, c.bodies, c.attributes, c.delays)
	})
	if visible, _ := wakeup.Visible(ms); visible == 1 {
		o.to = q.name
	}
	return q.writes.run(ctx, o)
}

// insertFIFO stores deduplication ids, locks the groups of the messages whose ids are new, and
// only then numbers these messages: the numbers of a group grow in the order of its commits.
// A group whose last message is being deleted is waited for, and made again.
const insertFIFO = withNow + `, given AS (
  SELECT * FROM unnest($3::bytea[], $4::bytea[], $5::bytea[], $6::bytea[]) WITH ORDINALITY AS u (grp, dedup, body, attributes, n)
), fresh AS (
  INSERT INTO fedpost.dedup AS d (queue, id, until) SELECT $2, dedup, now + $7 FROM given, t ORDER BY dedup
  ON CONFLICT (queue, id) DO UPDATE SET until = excluded.until WHERE d.until <= (SELECT now FROM t)
  RETURNING id
), locked AS (
  INSERT INTO fedpost.fifo_group AS g (queue, grp, free)
  SELECT $2, grp, now FROM (SELECT DISTINCT grp FROM given JOIN fresh ON id = dedup ORDER BY grp) f, t
  ON CONFLICT (queue, grp) DO UPDATE SET free = g.free
  RETURNING grp
), numbered AS (
  SELECT nextval('fedpost.message_seq') AS seq, kept.* FROM (
    SELECT given.* FROM given JOIN fresh ON id = dedup JOIN locked USING (grp) ORDER BY n
  ) kept
), message AS (
  INSERT INTO fedpost.message (seq, grp, dedup, body, attributes) SELECT seq, grp, dedup, body, attributes FROM numbered
)
INSERT INTO fedpost.fifo_lease (queue, seq, grp, sent, visible) SELECT $2, seq, grp, now, now FROM numbered, t`

func (q *mq) insertFIFO(ctx context.Context, ms []queue.Message) error {
	c, err := q.columnsOf(firsts(ms))
	if err != nil {
		return err
	}
	return q.batch(ctx, func(b *pgx.Batch) {
		b.Queue(q.sql(insertFIFO), q.clock.arguments(), string(q.name), c.groups, c.dedups, c.bodies, c.attributes, queue.DedupWindow.Milliseconds())
	})
}

// firsts leaves out the duplicates among the messages of one portion.
func firsts(ms []queue.Message) []queue.Message {
	type key struct{ group, dedup string }
	seen := make(map[key]bool, len(ms))
	return slices.DeleteFunc(slices.Clone(ms), func(m queue.Message) bool {
		k := key{m.OrderingKey, m.DeduplicationKey}
		was := seen[k]
		seen[k] = true
		return was
	})
}
