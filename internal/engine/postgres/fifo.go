package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"fedpost/internal/engine/queue"
)

const (
	// freeGroups locks groups whose first message is visible, the longest free first. Groups
	// that another call has locked are passed over: the other call wakes receivers when it is done.
	freeGroups = withNow + `SELECT grp FROM fedpost.fifo_group WHERE queue = $2 AND free <= (SELECT now FROM t)
		ORDER BY free LIMIT $3 FOR UPDATE SKIP LOCKED`

	lockGroups = `SELECT FROM fedpost.fifo_group WHERE queue = $1 AND grp = ANY ($2::bytea[]) ORDER BY grp FOR UPDATE`

	// headsOf lists the messages of groups, from the first one to the first one in flight, as SQS
	// does: a message is held by messages before it that are in flight, not by those after it.
	headsOf = withNow + `SELECT h.seq, h.sent, h.receives, h.outdated, g.grp, m.dedup, m.body, m.attributes
	FROM t, unnest($3::bytea[]) WITH ORDINALITY AS g (grp, n), LATERAL (
	  SELECT seq, sent, receives, sent <= t.now - $4::bigint AS outdated FROM fedpost.fifo_lease
	  WHERE queue = $2 AND grp = g.grp AND seq < coalesce((
	    SELECT min(seq) FROM fedpost.fifo_lease WHERE queue = $2 AND grp = g.grp AND visible > t.now), 9223372036854775807)
	  ORDER BY seq LIMIT $5
	) h, LATERAL (SELECT * FROM fedpost.message WHERE seq = h.seq LIMIT 1) m
	ORDER BY g.n, h.seq`

	hideFIFO = withNow + `UPDATE fedpost.fifo_lease SET visible = now + $4::bigint, received = now, receives = receives + 1
		FROM t WHERE queue = $2 AND seq = ANY ($3::bigint[])`

	// moveToDead moves messages to the dead letters. Their retention starts again, as on SQS.
	moveToDead = withNow + `UPDATE fedpost.fifo_lease SET queue = $4, source = $2, sent = now, visible = now, received = 0, receives = 0
		FROM t WHERE queue = $2 AND seq = ANY ($3::bigint[])`

	// openGroups makes groups, or locks those that are there. A held group stays held.
	openGroups = withNow + `INSERT INTO fedpost.fifo_group AS g (queue, grp, free)
		SELECT $2, grp, now FROM (SELECT DISTINCT grp FROM unnest($3::bytea[]) AS u (grp) ORDER BY grp) u, t
		ON CONFLICT (queue, grp) DO UPDATE SET free = g.free`

	// settleGroups brings locked groups up to date after their messages have changed. A group
	// that becomes free goes to the end of the free ones, so that a busy group starves no
	// other.
	settleGroups = withNow + `UPDATE fedpost.fifo_group g SET free = greatest(t.now, (
		SELECT visible FROM fedpost.fifo_lease l WHERE l.queue = $2 AND l.grp = g.grp ORDER BY seq LIMIT 1))
		FROM t WHERE g.queue = $2 AND g.grp = ANY ($3::bytea[])`

	dropGroups = `DELETE FROM fedpost.fifo_group g WHERE g.queue = $1 AND g.grp = ANY ($2::bytea[])
		AND NOT EXISTS (SELECT FROM fedpost.fifo_lease l WHERE l.queue = $1 AND l.grp = g.grp)`
)

// settle brings groups up to date, at the end of a transaction that has locked them.
func (e *Engine) settle(b *pgx.Batch, n queue.Name, groups [][]byte) {
	b.Queue(e.sql(dropGroups), string(n), groups)
	b.Queue(e.sql(settleGroups), e.clock.arguments(), string(n), groups)
}

// takeFIFO takes messages of free groups. The messages of a group that one receive returns are in
// order. All later messages of the group are held until the returned ones are deleted or visible
// again. Like takeStandard, it waits for outcomes that are not known.
func (q *mq) takeFIFO(ctx context.Context, o queue.ReceiveOptions, reads func()) ([]queue.Received, error) {
	var got []queue.Received
	for {
		p := pass{mq: q, o: o, max: o.Max - len(got)}
		err := q.transact(ctx, func(t *tx) error { reads(); return p.run(t) })
		if err = q.settled(ctx, o.Visibility/2, err); err != nil {
			return got, err
		}
		if p.dead > 0 {
			q.wakeReceivers(q.name.DeadLetter(), p.dead)
		}
		got = append(got, p.got...)
		if len(got) == o.Max || !p.more {
			return got, nil
		}
	}
}

// pass is one transaction of a receive.
type pass struct {
	*mq
	o    queue.ReceiveOptions
	max  int
	got  []queue.Received
	dead int
	more bool // there may be more free groups
}

func (p *pass) run(t *tx) error {
	p.got, p.dead, p.more = nil, 0, false
	var groups [][]byte
	err := t.run(func(b *pgx.Batch) {
		b.Queue(p.sql(freeGroups), p.clock.arguments(), string(p.name), p.max).Query(func(rows pgx.Rows) (err error) {
			groups, err = pgx.CollectRows(rows, pgx.RowTo[[]byte])
			return err
		})
	})
	if err != nil || len(groups) == 0 {
		return err
	}
	p.more = len(groups) == p.max
	var heads []head
	err = t.run(func(b *pgx.Batch) {
		b.Queue(p.sql(headsOf), p.clock.arguments(), string(p.name), groups, p.config.Retention.Milliseconds(), p.max).Query(func(rows pgx.Rows) (err error) {
			heads, err = pgx.CollectRows(rows, scanHead)
			return err
		})
	})
	if err != nil {
		return err
	}
	return p.hand(t, groups, heads)
}

// head is a message of a free group with none in flight before it.
type head struct {
	stored
	outdated bool // past its retention
}

func scanHead(row pgx.CollectableRow) (h head, err error) {
	err = row.Scan(&h.seq, &h.sent, &h.receives, &h.outdated, &h.group, &h.dedup, &h.body, &h.attributes)
	return h, err
}

// hand gives out messages until there are enough. Those that were received too often go to
// the dead letters, and those past their retention are gone.
func (p *pass) hand(t *tx, groups [][]byte, heads []head) error {
	var taken, dead, gone []int64
	var deadGroups [][]byte
	for _, h := range heads {
		switch {
		case len(p.got) == p.max:
		case h.outdated:
			gone = append(gone, h.seq)
		case p.config.MaxReceives > 0 && h.receives >= p.config.MaxReceives:
			dead, deadGroups = append(dead, h.seq), append(deadGroups, h.group)
		default:
			h.receives++
			r, err := p.received(h.stored)
			if err != nil {
				return err
			}
			r.Sequence = r.ID
			p.got, taken = append(p.got, r), append(taken, h.seq)
		}
	}
	p.dead = len(dead)
	return t.run(func(b *pgx.Batch) {
		if len(gone) > 0 {
			b.Queue(p.sql(p.discard()), string(p.name), gone)
		}
		if len(dead) > 0 {
			to := p.name.DeadLetter()
			b.Queue(p.sql(openGroups), p.clock.arguments(), string(to), deadGroups)
			b.Queue(p.sql(moveToDead), p.clock.arguments(), string(p.name), dead, string(to))
		}
		if len(taken) > 0 {
			b.Queue(p.sql(hideFIFO), p.clock.arguments(), string(p.name), taken, queue.CeilMilli(p.o.Visibility))
		}
		p.settle(b, p.name, groups)
	})
}
