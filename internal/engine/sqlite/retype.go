package sqlite

import (
	"errors"
	"fmt"

	"fedpost/internal/engine/queue"
)

// retype converts messages that were sent while a queue had another type. A message of a standard
// queue gets a group of its own on a FIFO queue. A message of a FIFO queue loses its position in
// its group; on the queues whose type can change, no order is promised.
func retype(s *session, typ queue.Type) error {
	if err := s.script("BEGIN IMMEDIATE"); err != nil {
		return fmt.Errorf("change the type of queues: %w", err)
	}
	for _, n := range queue.Names {
		change := toStandard
		if typ.FIFO(n) {
			change = toFIFO
		}
		if err := change(s, n); err != nil {
			return fmt.Errorf("change the type of queue %s: %w", n, errors.Join(err, s.script("ROLLBACK")))
		}
	}
	if err := s.script("COMMIT"); err != nil {
		return fmt.Errorf("change the type of queues: %w", err)
	}
	return nil
}

func toFIFO(s *session, n queue.Name) error {
	// "#" is in no digest, and seq is used once.
	if err := s.exec(`INSERT INTO fifo_group (queue, grp, free) SELECT queue, '#' || seq, visible FROM message WHERE queue = ? AND fifo = 0`, string(n)); err != nil {
		return err
	}
	return s.exec(`UPDATE message SET fifo = 1, grp = '#' || seq, dedup = '#' || seq WHERE queue = ? AND fifo = 0`, string(n))
}

func toStandard(s *session, n queue.Name) error {
	if err := s.exec(`DELETE FROM fifo_group WHERE queue = ?`, string(n)); err != nil {
		return err
	}
	return s.exec(`UPDATE message SET fifo = 0, grp = '', dedup = '' WHERE queue = ? AND fifo = 1`, string(n))
}
