package postgres

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/wakeup"
)

// Receive implements queue.Queue. With a test's clock, call it without Wait.
func (q *mq) Receive(ctx context.Context, o queue.ReceiveOptions) ([]queue.Received, error) {
	take, next := q.takeStandard, nextStandard
	park := func(o queue.ReceiveOptions, reads func()) wakeup.Parked { return q.taking(o, reads) }
	if q.fifo {
		take, next = q.takeFIFO, nextFIFO
		park = func(queue.ReceiveOptions, func()) wakeup.Parked { return nil }
	}
	return q.wake.Receive(ctx, wakeup.Source{
		Name: q.name, Config: q.config, Take: take, Park: park, Closed: q.stopped, ErrClosed: ErrClosed,
		Next: func(ctx context.Context) (time.Duration, error) {
			ms := int64(0)
			err := q.ask(ctx, next, &ms)
			return min(max(time.Duration(ms)*time.Millisecond, readAgain), pollEvery), err
		},
	}, o)
}

// readAgain is how soon an empty queue is read again at most: another process may be taking the
// message that nextStandard or nextFIFO finds.
const readAgain = 20 * time.Millisecond

// The milliseconds until the next hidden message becomes visible, 12 hours if there is none. One
// that has done so in the last 100 ms may have been hidden when the queue was read.
const (
	nextStandard = `SELECT coalesce((SELECT visible FROM fedpost.lease WHERE queue = $2 AND visible > (SELECT now FROM t) - 100
		ORDER BY visible LIMIT 1) - (SELECT now FROM t), 43200000)`
	nextFIFO = `SELECT coalesce((SELECT free FROM fedpost.fifo_group WHERE queue = $2 AND free > (SELECT now FROM t) - 100
		ORDER BY free LIMIT 1) - (SELECT now FROM t), 43200000)`
)

// stored is a message that a receive has found.
type stored struct {
	seq, sent  int64
	receives   int // the one that found it included
	group      []byte
	dedup      []byte
	body       []byte
	attributes []byte
	queue      queue.Name // where it is now
}

func (q *mq) received(m stored) (queue.Received, error) {
	r := queue.Received{
		ID: queue.MessageID(m.seq), ReceiveCount: m.receives, SentAt: time.UnixMilli(m.sent).UTC(),
		Handle: queue.Handle{Queue: q.name, Seq: m.seq, Receipt: m.receives, Group: m.group}.String(),
		Message: queue.Message{
			Body: string(m.body), OrderingKey: hex.EncodeToString(m.group), DeduplicationKey: hex.EncodeToString(m.dedup),
		},
	}
	if len(m.attributes) > 0 {
		if err := json.Unmarshal(m.attributes, &r.Attributes); err != nil {
			return r, fmt.Errorf("attributes of message %d: %w", m.seq, err)
		}
	}
	return r, nil
}

// claim hides messages, or moves those that were received too often to the dead letters. Rows are
// found by ctid, and bodies one by one: PostgreSQL keeps the plan of a statement, and a plan made
// while the table was empty may read the whole table later. As a CTE of its own, the search with
// the LIMIT runs once.
const claim = withNow + `, due AS MATERIALIZED (
  SELECT ctid FROM fedpost.lease
  WHERE queue = $2 AND visible <= (SELECT now FROM t) AND sent > (SELECT now FROM t) - $3::bigint
  ORDER BY visible LIMIT $4 FOR UPDATE SKIP LOCKED
), taken AS (
  UPDATE fedpost.lease l SET
    queue    = CASE WHEN $6 > 0 AND receives >= $6 THEN $7 ELSE $2 END,
    source   = CASE WHEN $6 > 0 AND receives >= $6 THEN $2 ELSE source END,
    visible  = CASE WHEN $6 > 0 AND receives >= $6 THEN now ELSE now + $5::bigint END,
    received = CASE WHEN $6 > 0 AND receives >= $6 THEN 0 ELSE now END,
    receives = CASE WHEN $6 > 0 AND receives >= $6 THEN 0 ELSE receives + 1 END
  FROM t WHERE l.ctid = ANY (ARRAY(SELECT ctid FROM due))
  RETURNING l.seq, l.sent, l.receives, l.queue
)
SELECT taken.*, m.grp, m.dedup, m.body, m.attributes
FROM taken, LATERAL (SELECT * FROM fedpost.message WHERE seq = taken.seq LIMIT 1) m`

// takeStandard takes messages until it has found as many as wanted, or no more. A message that goes
// to the dead letters does not count.
//
// If the answer to a receive that was committed is lost, its messages stay hidden until their
// visibility timeout ends. So takeStandard asks the server for the outcome, and leaves half of the
// visibility timeout for the work.
func (q *mq) takeStandard(ctx context.Context, o queue.ReceiveOptions, reads func()) ([]queue.Received, error) {
	if err := q.retake(ctx); err != nil {
		return nil, err
	}
	var all []queue.Received
	for len(all) < o.Max {
		t := q.taking(queue.ReceiveOptions{Max: o.Max - len(all), Visibility: o.Visibility}, reads)
		t.err = q.writes.run(ctx, t.op)
		got, err := t.Got(ctx)
		if all = append(all, got...); err != nil {
			return all, err
		}
		if len(t.found) < t.max || len(got) == t.max {
			break
		}
	}
	return all, nil
}

// taking is one claim.
type taking struct {
	*mq
	*op
	max        int
	visibility time.Duration
	found      []stored
}

func (q *mq) taking(o queue.ReceiveOptions, reads func()) *taking {
	t := &taking{mq: q, max: o.Max, visibility: o.Visibility}
	t.op = one("take", func(b *pgx.Batch) {
		reads()
		t.found = nil
		b.Queue(q.sql(claim), q.clock.arguments(), string(q.name), q.config.Retention.Milliseconds(), t.max,
			queue.CeilMilli(t.visibility), q.config.MaxReceives, string(q.name.DeadLetter())).Query(func(rows pgx.Rows) (err error) {
			t.found, err = scanStored(rows)
			return err
		})
	})
	return t
}

// Done implements wakeup.Parked.
func (t *taking) Done() <-chan struct{} { return t.done }

// Got implements wakeup.Parked.
func (t *taking) Got(ctx context.Context) (got []queue.Received, err error) {
	if err := t.settled(ctx, t.visibility/2, t.err); err != nil {
		return nil, err
	}
	slices.SortFunc(t.found, func(a, b stored) int { return cmp.Compare(a.seq, b.seq) })
	dead := 0
	for _, m := range t.found {
		if m.queue != t.name {
			dead++
			continue
		}
		r, err := t.received(m)
		if err != nil {
			return got, err
		}
		got = append(got, r)
	}
	if dead > 0 {
		t.wakeReceivers(t.name.DeadLetter(), dead)
	}
	return got, nil
}

const (
	// overdue finds retries and messages that had a delay.
	overdue = withNow + `SELECT l.seq, m.grp FROM (
  SELECT seq FROM fedpost.lease
  WHERE queue = $2 AND visible > (SELECT now FROM t) - $3::bigint AND visible <= (SELECT now FROM t) - $4::bigint AND visible > sent
  ORDER BY visible LIMIT $5
) l, LATERAL (SELECT grp FROM fedpost.message WHERE seq = l.seq LIMIT 1) m`
	// retake dates messages back, but none that is being received.
	retake = withNow + `, due AS MATERIALIZED (
  SELECT l.ctid, d.before FROM unnest($3::bigint[], $4::bigint[]) AS d (seq, before), LATERAL (
    SELECT ctid FROM fedpost.lease WHERE seq = d.seq AND queue = $2 AND visible <= (SELECT now FROM t) LIMIT 1 FOR UPDATE SKIP LOCKED
  ) l
)
UPDATE fedpost.lease l SET visible = least(l.visible, t.now - due.before) FROM due, t WHERE l.ctid = due.ctid`
)

// retake dates back retries and messages that had a delay, as if they were new messages of their
// groups.
func (q *mq) retake(ctx context.Context) error {
	now := q.clock.moment()
	from, to, ok := q.order.Due(now)
	if !ok {
		return nil
	}
	var seqs []int64
	var groups []string
	err := q.reads.submit(ctx, "", func(b *pgx.Batch) {
		seqs, groups = nil, nil
		b.Queue(q.sql(overdue), q.clock.arguments(), string(q.name), from.Milliseconds(), to.Milliseconds(), queue.MostDue).Query(func(rows pgx.Rows) error {
			var seq int64
			var group []byte
			_, err := pgx.ForEachRow(rows, []any{&seq, &group}, func() error {
				seqs, groups = append(seqs, seq), append(groups, hex.EncodeToString(group))
				return nil
			})
			return err
		})
	})
	if err != nil || len(seqs) == 0 {
		return err
	}
	before := q.order.OffsetsAgain(groups, now)
	return q.writes.submit(ctx, "take", func(b *pgx.Batch) { b.Queue(q.sql(retake), q.clock.arguments(), string(q.name), seqs, before) })
}

func scanStored(rows pgx.Rows) ([]stored, error) {
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (m stored, err error) {
		err = row.Scan(&m.seq, &m.sent, &m.receives, &m.queue, &m.group, &m.dedup, &m.body, &m.attributes)
		return m, err
	})
}
