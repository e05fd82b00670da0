package sipher

import (
	"context"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol"
)

// Prepare implements protocol.Sender. Jobs have one target, so there is nothing to
// share.
func (p *Protocol) Prepare(_ context.Context, a activity.Activity) protocol.Attempt {
	return func(ctx context.Context, t activity.Target, n int) outcome.Outcome { return p.Attempt(ctx, a, t, n) }
}
