package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"fedpost/internal/engine/queue"
)

func (q *mq) Depth(ctx context.Context) (d queue.Depth, err error) {
	err = q.ask(ctx, `SELECT count(*) FILTER (WHERE visible <= now), count(*) FILTER (WHERE visible > now AND receives > 0),
		count(*) FILTER (WHERE visible > now AND receives = 0) FROM fedpost.`+q.leases+`, t WHERE queue = $2`, &d.Visible, &d.InFlight, &d.Delayed)
	if err != nil {
		return queue.Depth{}, fmt.Errorf("depth of %s: %w", q.name, err)
	}
	return d, nil
}

// Oldest returns the sending time of the first message that is visible or in flight, zero if
// there is none. SQS reports this time only through CloudWatch.
func (q *mq) Oldest(ctx context.Context) (time.Time, error) {
	var sent int64
	err := q.ask(ctx, `SELECT coalesce((SELECT sent FROM fedpost.`+q.leases+`, t
		WHERE queue = $2 AND (visible <= now OR receives > 0) ORDER BY seq LIMIT 1), 0)`, &sent)
	if err != nil || sent == 0 {
		return time.Time{}, err
	}
	return time.UnixMilli(sent).UTC(), nil
}

func (q *mq) ask(ctx context.Context, statement string, dest ...any) error {
	return q.reads.submit(ctx, "", func(b *pgx.Batch) {
		b.Queue(q.sql(withNow+statement), q.clock.arguments(), string(q.name)).QueryRow(func(r pgx.Row) error { return r.Scan(dest...) })
	})
}
