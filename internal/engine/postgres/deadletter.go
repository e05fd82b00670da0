package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"fedpost/internal/engine/queue"
)

const redriveStep = 100

// Redrive moves the dead letters that are not in flight back to their source queues, oldest
// first, and returns how many it moved. As on SQS, a redriven message is a new message, with
// a new sending time and no receives, and messages that were sent to the dead-letter queue
// directly stay there.
//
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-configure-dead-letter-queue-redrive.html
func (e *Engine) Redrive(ctx context.Context, dead queue.Name) (int, error) {
	if dead.DeadLetter() != dead {
		return 0, fmt.Errorf("redrive: %q is no queue of dead letters", dead)
	}
	step := e.redriveStandard
	if e.typ.FIFO(dead) {
		step = e.redriveFIFO
	}
	total := 0
	for {
		moved := make(map[queue.Name]int)
		err := e.transact(ctx, func(t *tx) error {
			clear(moved)
			return step(t, dead, moved)
		})
		if err != nil {
			return total, fmt.Errorf("redrive %s: %w", dead, err)
		}
		n := 0
		for source, messages := range moved {
			e.wakeReceivers(source, messages)
			n += messages
		}
		if total += n; n < redriveStep {
			return total, nil
		}
	}
}

// renumber makes messages new ones on their source queues. It stands after `due`, which selects
// them.
const renumber = `, numbered AS MATERIALIZED (
  SELECT nextval('fedpost.message_seq') AS new, d.* FROM (SELECT * FROM due ORDER BY seq) d
), body AS (
  UPDATE fedpost.message m SET seq = new FROM numbered n WHERE m.seq = n.seq
), moved AS (
  UPDATE fedpost.%[1]s l SET queue = n.source, source = NULL, seq = new, sent = now, visible = now, received = 0, receives = 0
  FROM numbered n, t WHERE l.queue = $2 AND l.seq = n.seq
  RETURNING l.queue
)
SELECT queue, count(*) FROM moved GROUP BY queue`

var (
	redriveStandard = withNow + `, due AS MATERIALIZED (
  SELECT seq, source FROM fedpost.lease WHERE queue = $2 AND source IS NOT NULL AND visible <= (SELECT now FROM t)
  ORDER BY seq LIMIT $3 FOR UPDATE SKIP LOCKED
)` + fmt.Sprintf(renumber, "lease")

	redriveFIFO = withNow + `, due AS MATERIALIZED (
  SELECT seq, source FROM fedpost.fifo_lease WHERE queue = $2 AND seq = ANY ($3::bigint[]) AND visible <= (SELECT now FROM t) FOR UPDATE
)` + fmt.Sprintf(renumber, "fifo_lease")
)

func (e *Engine) redriveStandard(t *tx, dead queue.Name, moved map[queue.Name]int) error {
	return t.run(func(b *pgx.Batch) {
		b.Queue(e.sql(redriveStandard), e.clock(), string(dead), redriveStep).Query(counts(moved))
	})
}

func counts(moved map[queue.Name]int) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var name queue.Name
		var n int
		_, err := pgx.ForEachRow(rows, []any{&name, &n}, func() error { moved[name] = n; return nil })
		return err
	}
}

func (e *Engine) redriveFIFO(t *tx, dead queue.Name, moved map[queue.Name]int) error {
	var seqs []int64
	var groups [][]byte
	sources := make(map[queue.Name][][]byte) // groups, by source
	err := t.run(func(b *pgx.Batch) {
		b.Queue(e.sql(withNow+`SELECT seq, source, grp FROM fedpost.fifo_lease WHERE queue = $2 AND source IS NOT NULL AND visible <= (SELECT now FROM t)
			ORDER BY seq LIMIT $3`), e.clock(), string(dead), redriveStep).Query(func(rows pgx.Rows) error {
			var seq int64
			var source queue.Name
			var group []byte
			_, err := pgx.ForEachRow(rows, []any{&seq, &source, &group}, func() error {
				seqs, groups, sources[source] = append(seqs, seq), append(groups, group), append(sources[source], group)
				return nil
			})
			return err
		})
	})
	if err != nil || len(seqs) == 0 {
		return err
	}
	return t.run(func(b *pgx.Batch) {
		b.Queue(e.sql(lockGroups), string(dead), groups)
		for source, its := range sources {
			b.Queue(e.sql(openGroups), e.clock(), string(source), its)
		}
		b.Queue(e.sql(redriveFIFO), e.clock(), string(dead), seqs).Query(counts(moved))
		e.settle(b, dead, groups)
		for source, its := range sources {
			e.settle(b, source, its)
		}
	})
}
