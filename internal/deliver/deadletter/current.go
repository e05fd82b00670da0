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

// Current is a store that shows only letters of what is dead still. A delivery
// that the queue's own redrive has revived leaves its letter behind, because
// nobody asks the table then; and one that a slow worker delivered after all was
// buried in vain.
type Current struct {
	Store
	Ledger Inspector
}

// inspections is how many letters are looked up at a time.
const inspections = 16

// Letters implements Store. Beside the letters it reads the ledger once for each.
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

// dead reports whether l is of the last life of its recipient. One that the
// ledger does not say is dead is so in a moment: letters are written first.
func (c Current) dead(ctx context.Context, l DeadLetter) (bool, error) {
	k, err := c.Ledger.Inspect(ctx, l.Last.Unit(l.Activity.ID))
	if err != nil {
		return false, err
	}
	r, ok := k.Recipients[l.Last.Position]
	over := r.State.Final() && r.State != activity.Dead
	return !ok || (r.Generation <= l.Last.Generation && !over), nil
}
