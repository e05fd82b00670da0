package sqlite

import (
	"context"
	"fmt"
	"math"

	"fedpost/internal/engine/queue"
)

// Recall makes all messages in flight visible, on all queues. It is for the start
// of a program whose earlier run may have been killed: one process at a time has
// the file, so the receivers of those messages are gone. The visibility timeout
// is for functions that may still be running; waiting for it would only delay
// deliveries by minutes after a crash.
func (e *Engine) Recall(ctx context.Context) error {
	now := e.now().UnixMilli()
	err := e.write(ctx, func(s *session) error {
		if err := s.exec(`UPDATE message SET visible = ?1 WHERE receives > 0 AND visible > ?1`, now); err != nil {
			return err
		}
		return s.exec(`UPDATE fifo_group SET free = ?1 WHERE free > ?1`, now)
	})
	if err != nil {
		return fmt.Errorf("recall messages in flight: %w", err)
	}
	for _, n := range queue.Names {
		e.wake.Wake(n, math.MaxInt)
	}
	return nil
}
