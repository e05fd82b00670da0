package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"fedpost/internal/engine/queue"
)

const (
	// Grace is how long expired items stay in the table, as in the SQLite engine. DynamoDB
	// takes days to drop them, so callers must cope with expired items.
	Grace = time.Hour
	// sweepStep is how many rows Sweep drops in one transaction.
	sweepStep = 500
)

// Sweep drops expired data: items expired for longer than Grace, messages past their
// retention, deduplication ids past their window, and rows of the outbox that were accepted
// long ago. Call it every minute, in any number of processes: rows that another one drops are
// passed over. While the clocks of server and process differ, nothing is dropped.
func (e *Engine) Sweep(ctx context.Context) error {
	agree, err := e.FollowClock(ctx)
	if err == nil && agree {
		err = e.dropOld(ctx)
	}
	return errors.Join(err, e.retype(ctx))
}

func (e *Engine) dropOld(ctx context.Context) error {
	if err := e.drop(ctx, `DELETE FROM fedpost.item WHERE ctid = ANY (ARRAY(
		SELECT ctid FROM fedpost.item WHERE expires <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED))`, e.clock.moment().Add(-Grace).UnixNano()); err != nil {
		return fmt.Errorf("sweep expired items: %w", err)
	}
	if err := e.drop(ctx, withNow+`DELETE FROM fedpost.dedup WHERE ctid = ANY (ARRAY(
		SELECT ctid FROM fedpost.dedup, t WHERE until <= now LIMIT $2 FOR UPDATE OF dedup SKIP LOCKED))`, e.clock.arguments()); err != nil {
		return fmt.Errorf("sweep deduplication ids: %w", err)
	}
	if err := e.drop(ctx, `DELETE FROM fedpost.outbox WHERE id = ANY (ARRAY(
		SELECT id FROM fedpost.outbox WHERE activity IS NOT NULL AND ended <= clock_timestamp() - make_interval(secs => $1) LIMIT $2 FOR UPDATE SKIP LOCKED))`,
		e.outboxRetention.Seconds()); err != nil {
		return fmt.Errorf("sweep the outbox: %w", err)
	}
	for _, n := range queue.Names {
		if err := e.queue(n).outdatedMessages(ctx); err != nil {
			return fmt.Errorf("sweep old messages of %s: %w", n, err)
		}
	}
	return nil
}

// drop repeats a DELETE that is bounded by its argument $2 until nothing is left.
func (e *Engine) drop(ctx context.Context, statement string, first any) error {
	for {
		var n int64
		err := e.batch(ctx, func(b *pgx.Batch) { b.Queue(e.sql(statement), first, sweepStep).Exec(affected(&n)) })
		if err != nil || n < sweepStep {
			return err
		}
	}
}

// outdatedMessages drops messages past their retention. Numbers grow with the time of
// sending, so it looks at the first ones only.
func (q *mq) outdatedMessages(ctx context.Context) error {
	group := `NULL::bytea`
	if q.fifo {
		group = "grp"
	}
	list := fmt.Sprintf(withNow+`SELECT seq, grp FROM (SELECT seq, sent, %s AS grp FROM fedpost.%s WHERE queue = $2 ORDER BY seq LIMIT $4) first, t
		WHERE sent <= now - $3::bigint`, group, q.leases)
	for {
		var seqs []int64
		err := q.transact(ctx, func(t *tx) error {
			seqs = nil
			var groups [][]byte
			err := t.run(func(b *pgx.Batch) {
				b.Queue(q.sql(list), q.clock.arguments(), string(q.name), q.config.Retention.Milliseconds(), sweepStep).Query(func(rows pgx.Rows) error {
					var seq int64
					var group []byte
					_, err := pgx.ForEachRow(rows, []any{&seq, &group}, func() error {
						seqs, groups = append(seqs, seq), append(groups, group)
						return nil
					})
					return err
				})
			})
			if err != nil || len(seqs) == 0 {
				return err
			}
			return t.run(func(b *pgx.Batch) {
				if q.fifo {
					b.Queue(q.sql(lockGroups), string(q.name), groups)
				}
				b.Queue(q.sql(q.discard()), string(q.name), seqs)
				if q.fifo {
					q.settle(b, q.name, groups)
				}
			})
		})
		if err != nil || len(seqs) < sweepStep {
			return err
		}
	}
}
