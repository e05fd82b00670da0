package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"fedpost/internal/engine/queue"
)

// retype converts messages that were sent while a queue had another type, or by a process that has
// not been restarted since the type changed. A message of a standard queue gets a group of its own
// on a FIFO queue. A message of a FIFO queue loses its position in its group; on the queues whose
// type can change, no order is promised.
func (e *Engine) retype(ctx context.Context) error {
	for _, n := range queue.Names {
		statement := toStandard
		if e.typ.FIFO(n) {
			statement = toFIFO
		}
		if err := e.batch(ctx, func(b *pgx.Batch) { b.Queue(e.sql(statement), string(n)) }); err != nil {
			return fmt.Errorf("change the type of queue %s: %w", n, err)
		}
	}
	return nil
}

const (
	// A group of eight bytes is no digest, and a number is used once.
	toFIFO = `WITH moved AS (DELETE FROM fedpost.lease WHERE queue = $1 RETURNING *), made AS (
  INSERT INTO fedpost.fifo_group (queue, grp, free) SELECT queue, int8send(seq), visible FROM moved ON CONFLICT DO NOTHING
)
INSERT INTO fedpost.fifo_lease (queue, seq, source, grp, sent, visible, received, receives)
SELECT queue, seq, source, int8send(seq), sent, visible, received, receives FROM moved`

	toStandard = `WITH groups AS (DELETE FROM fedpost.fifo_group WHERE queue = $1), moved AS (
  DELETE FROM fedpost.fifo_lease WHERE queue = $1 RETURNING *
)
INSERT INTO fedpost.lease (queue, seq, source, sent, visible, received, receives)
SELECT queue, seq, source, sent, visible, received, receives FROM moved`
)
