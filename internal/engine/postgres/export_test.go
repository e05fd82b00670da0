package postgres

import (
	"context"

	"fedpost/internal/engine/outbox"
)

// Step is what Run repeats.
func (o Outbox) Step(ctx context.Context, accept outbox.Accept) (more bool, err error) {
	return o.step(ctx, accept)
}
