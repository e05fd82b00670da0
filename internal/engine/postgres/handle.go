package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"fedpost/internal/engine/queue"
)

const discard = `WITH gone AS (DELETE FROM fedpost.leases WHERE queue = $1 AND seq = ANY ($2::bigint[]) RETURNING seq)
	DELETE FROM fedpost.message WHERE seq = ANY (ARRAY(SELECT seq FROM gone))`

// Delete implements queue.Queue. Deleting twice is no error, as on SQS.
func (q *mq) Delete(ctx context.Context, receipt string) error {
	h, err := queue.ParseHandle(q.name, receipt)
	if err == nil {
		err = q.onMessage(ctx, h, func(b *pgx.Batch) {
			b.Queue(q.sql(q.discard()), string(q.name), []int64{h.Seq})
		})
	}
	if err != nil {
		return fmt.Errorf("delete from %s: %w", q.name, err)
	}
	if q.fifo {
		q.wakeReceivers(q.name, 1) // for the group, which one receiver gets
	}
	return nil
}

func (q *mq) discard() string { return strings.ReplaceAll(discard, "leases", q.leases) }

// onMessage runs statements that change one message: on a standard queue together with those
// of other calls, on a FIFO queue in a transaction that locks the group first.
func (q *mq) onMessage(ctx context.Context, h queue.Handle, statements func(*pgx.Batch)) error {
	if !q.fifo {
		return q.writes.submit(ctx, "lease "+queue.MessageID(h.Seq), statements)
	}
	groups := [][]byte{h.Group}
	return q.batch(ctx, func(b *pgx.Batch) {
		b.Queue(q.sql(lockGroups), string(q.name), groups)
		statements(b)
		q.settle(b, q.name, groups)
	})
}

// hide hides a message in flight, and reports what it found. Both parts of the statement look at
// the row as it was before.
const hide = withNow + `, l AS MATERIALIZED (
  SELECT visible <= now OR receives = 0 AS idle, now + $4::bigint > received + $5::bigint AS long
  FROM fedpost.leases, t WHERE queue = $2 AND seq = $3 FOR UPDATE OF leases
), u AS (
  UPDATE fedpost.leases SET visible = now + $4::bigint FROM t, l WHERE queue = $2 AND seq = $3 AND NOT idle AND NOT long
)
SELECT idle, long FROM l`

func (q *mq) ChangeVisibility(ctx context.Context, receipt string, d time.Duration) error {
	var state queue.InFlight
	h, err := queue.ParseHandle(q.name, receipt)
	if err == nil {
		err = queue.CheckVisibility(d)
	}
	if err == nil {
		err = q.onMessage(ctx, h, func(b *pgx.Batch) {
			state = queue.InFlight{}
			b.Queue(q.sql(strings.ReplaceAll(hide, "leases", q.leases)), q.clock.arguments(), string(q.name), h.Seq,
				queue.CeilMilli(d), queue.MaxVisibility.Milliseconds()).Query(func(rows pgx.Rows) error {
				_, err := pgx.ForEachRow(rows, []any{&state.Idle, &state.Long}, func() error { state.Found = true; return nil })
				return err
			})
		})
	}
	if err == nil {
		err = state.Check(h.Seq)
	}
	if err != nil {
		return fmt.Errorf("change the visibility of a message of %s: %w", q.name, err)
	}
	if d == 0 {
		q.wakeReceivers(q.name, 1)
	} else {
		q.wake.Shift(q.name, d)
	}
	return nil
}
