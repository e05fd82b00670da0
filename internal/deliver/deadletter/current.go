package deadletter

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"fedpost/internal/activity"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
)

// Inspector looks a recipient up; ledger.Store is one.
type Inspector interface {
	Inspect(ctx context.Context, u message.Unit) (ledger.Known, error)
}

// Current is a store that hides dead letters whose recipient is not dead any more.
// The queue's own redrive revives a delivery without removing its dead letter from
// the table, and a slow worker may have delivered after all what another gave up.
type Current struct {
	Store
	Ledger Inspector
}

// inspections is how many dead letters are looked up at a time.
const inspections = 16

// DeadLetters implements Store. It reads the ledger once for each dead letter.
func (c Current) DeadLetters(ctx context.Context, f Filter, cursor string, limit int) ([]DeadLetter, string, error) {
	ls, next, err := c.Store.DeadLetters(ctx, f, cursor, limit)
	if err != nil {
		return nil, "", err
	}
	dead := make([]bool, len(ls))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(inspections)
	for i, l := range ls {
		g.Go(func() (err error) {
			dead[i], err = c.dead(ctx, l)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, "", fmt.Errorf("look up dead letters in the ledger: %w", err)
	}
	var still []DeadLetter
	for i, l := range ls {
		if dead[i] {
			still = append(still, l)
		}
	}
	return still, next, nil
}

// dead reports whether the recipient of l has not been revived since.
func (c Current) dead(ctx context.Context, l DeadLetter) (bool, error) {
	k, err := c.Ledger.Inspect(ctx, l.Last.Unit(l.Activity.ID))
	if err != nil {
		return false, err
	}
	return stillDead(k, l), nil
}

// stillDead reports whether the recipient of l has not been revived since, by what the
// ledger knows. The ledger may not say yet that the recipient is dead, as dead letters are
// written first.
func stillDead(k ledger.Known, l DeadLetter) bool {
	r, ok := k.Recipients[l.Last.Position]
	over := r.State.Final() && r.State != activity.Dead
	return !ok || (r.Generation <= l.Last.Generation && !over)
}
