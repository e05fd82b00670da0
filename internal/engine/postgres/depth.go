package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"fedpost/internal/engine/queue"
)

const (
	depthOf = withNow + `SELECT count(*) FILTER (WHERE visible <= now), count(*) FILTER (WHERE visible > now AND receives > 0),
		count(*) FILTER (WHERE visible > now AND receives = 0) FROM fedpost.%s, t WHERE queue = $2`
	oldestOf = withNow + `SELECT coalesce((SELECT sent FROM fedpost.%s, t WHERE queue = $2 AND (visible <= now OR receives > 0) ORDER BY seq LIMIT 1), 0)`
)

func (q *mq) depth(ctx context.Context, leases string) (d queue.Depth, err error) {
	err = q.ask(ctx, fmt.Sprintf(depthOf, leases), &d.Visible, &d.InFlight, &d.Delayed)
	if err != nil {
		return queue.Depth{}, fmt.Errorf("depth of %s: %w", q.name, err)
	}
	return d, nil
}

func (q *mq) oldest(ctx context.Context, leases string) (time.Time, error) {
	var sent int64
	err := q.ask(ctx, fmt.Sprintf(oldestOf, leases), &sent)
	if err != nil || sent == 0 {
		return time.Time{}, err
	}
	return time.UnixMilli(sent).UTC(), nil
}

// ask reads one row about the queue.
func (q *mq) ask(ctx context.Context, statement string, dest ...any) error {
	return q.reads.submit(ctx, "", func(b *pgx.Batch) {
		b.Queue(q.sql(statement), q.clock(), string(q.name)).QueryRow(func(r pgx.Row) error { return r.Scan(dest...) })
	})
}

// Depth implements queue.Queue.
func (q *standard) Depth(ctx context.Context) (queue.Depth, error) { return q.depth(ctx, "lease") }

// Depth implements queue.Queue.
func (q *fifo) Depth(ctx context.Context) (queue.Depth, error) { return q.depth(ctx, "fifo_lease") }

// Oldest returns the sending time of the first message that is visible or in flight, zero if
// there is none. SQS reports this time only through CloudWatch.
func (q *standard) Oldest(ctx context.Context) (time.Time, error) { return q.oldest(ctx, "lease") }

// Oldest is documented with standard.Oldest.
func (q *fifo) Oldest(ctx context.Context) (time.Time, error) { return q.oldest(ctx, "fifo_lease") }
