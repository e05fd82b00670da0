package postgres

import (
	"context"
	"time"

	"fedpost/internal/engine/outbox"
)

// Step is what Run repeats.
func (o Outbox) Step(ctx context.Context, accept outbox.Accept) (more bool, err error) {
	return o.step(ctx, accept)
}

// SetWall sets the machine's clock.
func (e *Engine) SetWall(now func() time.Time) { e.clock.wall = now }
