package postgres

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"fedpost/internal/engine/queue"
)

// handle names one receipt of a message. As on SQS, a handle does not fence: an old handle
// still deletes the message, although it was received again.
type handle struct {
	queue   queue.Name
	seq     int64
	receipt int
	group   []byte // on a FIFO queue; it must be locked before the message is
}

func (h handle) String() string {
	return fmt.Sprintf("%s.%d.%d.%x", h.queue, h.seq, h.receipt, h.group)
}

func (q *mq) parseHandle(s string) (handle, error) {
	parts := strings.Split(s, ".")
	if len(parts) == 4 && queue.Name(parts[0]) == q.name {
		seq, err1 := strconv.ParseInt(parts[1], 10, 64)
		receipt, err2 := strconv.Atoi(parts[2])
		group, err3 := hex.DecodeString(parts[3])
		if err1 == nil && err2 == nil && err3 == nil {
			return handle{q.name, seq, receipt, group}, nil
		}
	}
	return handle{}, fmt.Errorf("%w: %q is no receipt handle of this queue", queue.ErrInvalid, s)
}

const discardStandard = `WITH gone AS (DELETE FROM fedpost.lease WHERE queue = $1 AND seq = $2 RETURNING seq)
	DELETE FROM fedpost.message WHERE seq = ANY (ARRAY(SELECT seq FROM gone))`

// Delete implements queue.Queue. Deleting twice is no error, as on SQS.
func (q *standard) Delete(ctx context.Context, receipt string) error {
	h, err := q.parseHandle(receipt)
	if err == nil {
		err = q.writes.submit(ctx, "lease "+messageID(h.seq), func(b *pgx.Batch) {
			b.Queue(q.sql(discardStandard), string(q.name), h.seq)
		})
	}
	if err != nil {
		return fmt.Errorf("delete from %s: %w", q.name, err)
	}
	return nil
}

// ChangeVisibility implements queue.Queue.
func (q *standard) ChangeVisibility(ctx context.Context, receipt string, d time.Duration) error {
	return q.change(receipt, d, func(h handle, statement string, result *hidden) error {
		return q.writes.submit(ctx, "lease "+messageID(h.seq), func(b *pgx.Batch) { q.queueHide(b, statement, h, d, result) })
	}, "lease")
}

// hide hides a message in flight, and says what it found. Both parts of the statement look at
// the row as it was before.
const hide = withNow + `, l AS MATERIALIZED (
  SELECT visible <= now OR receives = 0 AS idle, now + $4::bigint > received + $5::bigint AS long
  FROM fedpost.lease, t WHERE queue = $2 AND seq = $3 FOR UPDATE OF lease
), u AS (
  UPDATE fedpost.lease SET visible = now + $4::bigint FROM t, l WHERE queue = $2 AND seq = $3 AND NOT idle AND NOT long
)
SELECT idle, long FROM l`

// hidden is what a ChangeVisibility has found.
type hidden struct{ there, idle, long bool }

func (q *mq) queueHide(b *pgx.Batch, statement string, h handle, d time.Duration, result *hidden) {
	*result = hidden{}
	b.Queue(q.sql(statement), q.clock(), string(q.name), h.seq, queue.CeilMilli(d), queue.MaxVisibility.Milliseconds()).Query(func(rows pgx.Rows) error {
		defer rows.Close()
		for rows.Next() {
			result.there = true
			if err := rows.Scan(&result.idle, &result.long); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

// change checks a call of ChangeVisibility, has do make it, and says what came of it.
func (q *mq) change(receipt string, d time.Duration, do func(h handle, statement string, result *hidden) error, leases string) error {
	var result hidden
	h, err := q.parseHandle(receipt)
	if err == nil {
		err = queue.CheckVisibility(d)
	}
	if err == nil {
		err = do(h, strings.ReplaceAll(hide, "lease", leases), &result)
	}
	switch {
	case err != nil:
	case !result.there:
		err = fmt.Errorf("%w: message %d is not there any more", queue.ErrInvalid, h.seq)
	case result.idle:
		err = fmt.Errorf("%w: message %d is not in flight", queue.ErrInvalid, h.seq)
	case result.long:
		err = fmt.Errorf("%w: message %d would be hidden for over %s since it was received", queue.ErrInvalid, h.seq, queue.MaxVisibility)
	}
	if err != nil {
		return fmt.Errorf("change the visibility of a message of %s: %w", q.name, err)
	}
	if d == 0 {
		q.ring(q.name, 1)
	} else {
		q.wake.Shift(q.name)
	}
	return nil
}
