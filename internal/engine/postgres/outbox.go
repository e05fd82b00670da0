package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"fedpost/internal/engine/outbox"
	"fedpost/internal/engine/queue"
)

const (
	// outboxName is the channel that an application notifies, and the queue that the worker waits
	// for.
	outboxName queue.Name = "outbox"
	// outboxBatch and outboxBytes bound the rows of one transaction and their requests together.
	// A single row may have more bytes.
	outboxBatch = 64
	outboxBytes = 8 << 20
	// outboxPoll is how often the table is read where the application does not notify.
	outboxPoll = time.Second
	// outboxTime is how long accepting a batch may take: less than idleInTransaction, after
	// which the server ends the transaction that holds the rows.
	outboxTime = 20 * time.Second
	// DefaultOutboxRetention is how long rows that were accepted stay.
	DefaultOutboxRetention = 24 * time.Hour
)

const (
	outboxWaits = `SELECT EXISTS (SELECT FROM fedpost.outbox WHERE ended IS NULL)`

	// takeOutbox locks the first rows, and lets one transaction at a time have any: rows with
	// one ordering key have to be accepted in the order of their insertion. The lock ends with
	// the transaction, so it is safe behind PgBouncer and after a crash.
	takeOutbox = `WITH alone AS MATERIALIZED (
  SELECT FROM fedpost.lock WHERE name = 'outbox' FOR UPDATE SKIP LOCKED
), first AS MATERIALIZED (
  SELECT id, created, deduplication_key, tries, request FROM fedpost.outbox
  WHERE ended IS NULL AND EXISTS (SELECT FROM alone) ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED
), summed AS (
  SELECT *, sum(octet_length(request)) OVER (ORDER BY id) - octet_length(request) AS before FROM first
)
SELECT id, created, deduplication_key, tries, request FROM summed WHERE before < $2 ORDER BY id`

	endOutbox = `UPDATE fedpost.outbox o SET activity = nullif(v.activity, ''), problem = nullif(v.problem, ''), tries = o.tries + v.tried,
  ended = CASE WHEN v.activity <> '' OR v.problem <> '' THEN clock_timestamp() END
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::int[]) AS v (id, activity, problem, tried) WHERE o.id = v.id`

	outboxState = `CASE WHEN activity IS NOT NULL THEN 'accepted' WHEN problem IS NOT NULL THEN 'refused' ELSE 'waiting' END`
)

// Outbox is the table that applications insert requests into.
type Outbox struct{ e *Engine }

// Outbox returns the outbox.
func (e *Engine) Outbox() Outbox { return Outbox{e} }

// Run accepts rows until ctx ends. Any number of processes may run it. A batch that has begun
// when ctx ends is finished, in outboxTime at most.
func (o Outbox) Run(ctx context.Context, accept outbox.Accept) {
	w := o.e.wake.Join(outboxName, queue.MaxBatch)
	defer o.e.wake.Leave(w)
	for ctx.Err() == nil {
		o.e.wake.Reads(w)
		more, err := o.step(ctx, accept)
		if err != nil && ctx.Err() == nil {
			o.e.log.WarnContext(ctx, "rows of the outbox are not accepted at the moment; they are tried again", "error", err)
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
		case <-w.Woken():
		case <-time.After(outboxPoll):
		}
	}
}

// step accepts a batch, and reports whether there may be more that can be accepted at once.
func (o Outbox) step(ctx context.Context, accept outbox.Accept) (more bool, err error) {
	waits := false
	if err := o.read(ctx, o.e.sql(outboxWaits), nil, &waits); err != nil || !waits {
		return false, err
	}
	err = o.e.transact(ctx, func(t *tx) error {
		rows, err := o.take(t)
		if err != nil || len(rows) == 0 {
			return err
		}
		accepting, cancel := context.WithTimeout(context.WithoutCancel(ctx), outboxTime)
		defer cancel()
		verdicts := accept(accepting, rows)
		more = true
		for _, v := range verdicts {
			more = more && (v.Activity != "" || v.Problem != "")
		}
		return o.end(t, rows, verdicts)
	})
	return more && err == nil, err
}

func (o Outbox) take(t *tx) (rows []outbox.Row, err error) {
	err = t.run(func(b *pgx.Batch) {
		b.Queue(o.e.sql(takeOutbox), outboxBatch, outboxBytes).Query(func(found pgx.Rows) error {
			var r outbox.Row
			_, err := pgx.ForEachRow(found, []any{&r.ID, &r.Created, &r.Key, &r.Tries, &r.Request}, func() error {
				rows = append(rows, r)
				r.Key = nil // the next row has a pointer of its own
				return nil
			})
			return err
		})
	})
	return rows, err
}

func (o Outbox) end(t *tx, rows []outbox.Row, verdicts []outbox.Verdict) error {
	var ids []int64
	var activities, problems []string
	var tried []int
	for i, v := range verdicts {
		if v.Activity == "" && v.Problem == "" && !v.Tried {
			continue // an outage writes nothing
		}
		n := 0
		if v.Tried {
			n = 1
		}
		ids, tried = append(ids, rows[i].ID), append(tried, n)
		activities, problems = append(activities, v.Activity), append(problems, v.Problem)
	}
	return t.run(func(b *pgx.Batch) { b.Queue(o.e.sql(endOutbox), ids, activities, problems, tried) })
}

func (o Outbox) read(ctx context.Context, statement string, args []any, dest ...any) error {
	return o.e.reads.submit(ctx, "", func(b *pgx.Batch) {
		b.Queue(statement, args...).QueryRow(func(r pgx.Row) error { return r.Scan(dest...) })
	})
}

// List returns up to limit rows of a state (empty: all) with numbers above after, without their
// requests.
func (o Outbox) List(ctx context.Context, state outbox.State, after int64, limit int) (rows []outbox.Row, err error) {
	err = o.e.reads.submit(ctx, "", func(b *pgx.Batch) {
		rows = nil
		b.Queue(o.e.sql(`SELECT id, created, deduplication_key, tries, `+outboxState+`, coalesce(activity, ''), coalesce(problem, ''), coalesce(ended, created)
			FROM fedpost.outbox WHERE id > $1 AND `+where(state)+` ORDER BY id LIMIT $2`), after, limit).Query(func(found pgx.Rows) error {
			for found.Next() {
				var r outbox.Row
				if err := found.Scan(&r.ID, &r.Created, &r.Key, &r.Tries, &r.State, &r.Activity, &r.Problem, &r.Ended); err != nil {
					return err
				}
				rows = append(rows, r)
			}
			return found.Err()
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list the outbox: %w", err)
	}
	return rows, nil
}

// where selects rows of a state in a way that an index serves.
func where(state outbox.State) string {
	switch state {
	case outbox.Waiting:
		return "ended IS NULL"
	case outbox.Refused:
		return "problem IS NOT NULL"
	case outbox.Accepted:
		return "activity IS NOT NULL"
	}
	return "true"
}

// Retry lets rows that were refused wait again: the row with the number id, or up to limit of
// all if id is 0. It returns how many there were.
func (o Outbox) Retry(ctx context.Context, id int64, limit int) (int, error) {
	n, err := o.change(ctx, `UPDATE fedpost.outbox SET problem = NULL, ended = NULL, tries = 0 WHERE `, id, limit)
	if n > 0 {
		o.e.wakeReceivers(outboxName, n)
	}
	return n, err
}

// Drop removes rows that were refused, as Retry selects them.
func (o Outbox) Drop(ctx context.Context, id int64, limit int) (int, error) {
	return o.change(ctx, `DELETE FROM fedpost.outbox WHERE `, id, limit)
}

func (o Outbox) change(ctx context.Context, what string, id int64, limit int) (int, error) {
	var n int64
	err := o.e.writes.submit(ctx, "outbox", func(b *pgx.Batch) {
		b.Queue(o.e.sql(what+`id = ANY (ARRAY(SELECT id FROM fedpost.outbox WHERE problem IS NOT NULL AND ($1::bigint = 0 OR id = $1)
			ORDER BY id LIMIT $2 FOR UPDATE)) AND problem IS NOT NULL`), id, limit).Exec(affected(&n))
	})
	if err != nil {
		return 0, fmt.Errorf("change the outbox: %w", err)
	}
	return int(n), nil
}

// Depth counts the rows that wait and those that are refused.
func (o Outbox) Depth(ctx context.Context) (d outbox.Depth, err error) {
	var oldest *time.Time
	err = o.read(ctx, o.e.sql(`SELECT (SELECT count(*) FROM fedpost.outbox WHERE ended IS NULL), (SELECT count(*) FROM fedpost.outbox WHERE problem IS NOT NULL),
		(SELECT created FROM fedpost.outbox WHERE ended IS NULL ORDER BY id LIMIT 1)`), nil, &d.Waiting, &d.Refused, &oldest)
	if err != nil {
		return outbox.Depth{}, fmt.Errorf("count the outbox: %w", err)
	}
	if oldest != nil {
		d.Oldest = oldest.UTC()
	}
	return d, nil
}
