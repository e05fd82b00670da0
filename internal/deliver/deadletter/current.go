package deadletter

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"fedpost/internal/activity"
	"fedpost/internal/ledger"
)

// Current is a Store that hides dead letters whose recipient is not dead any more: the queue's
// redrive leaves the dead letter in the table, and a slow worker may have delivered after all.
type Current struct {
	Store
	Ledger ledger.Store
}

const inspections = 16

// DeadLetters implements Store, with a read of the ledger for each dead letter.
func (c Current) DeadLetters(ctx context.Context, f Filter, cursor string, limit int) ([]DeadLetter, string, error) {
	ls, next, err := c.Store.DeadLetters(ctx, f, cursor, limit)
	if err != nil {
		return nil, "", err
	}
	known, err := inspect(ctx, c.Ledger, ls)
	if err != nil {
		return nil, "", err
	}
	var still []DeadLetter
	for i, l := range ls {
		if stillDead(known[i], l) {
			still = append(still, l)
		}
	}
	return still, next, nil
}

func inspect(ctx context.Context, s ledger.Store, ls []DeadLetter) ([]ledger.Known, error) {
	known := make([]ledger.Known, len(ls))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(inspections)
	for i, l := range ls {
		g.Go(func() (err error) {
			known[i], err = s.Inspect(ctx, l.Last.Unit(l.Activity.ID))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("look up dead letters in the ledger: %w", err)
	}
	return known, nil
}

// stillDead reports whether the recipient of l has not been revived. Dead letters are written
// before the record of the death.
func stillDead(k ledger.Known, l DeadLetter) bool {
	r, ok := k.Recipients[l.Last.Position]
	over := r.State.Final() && r.State != activity.Dead
	return !ok || (r.Generation <= l.Last.Generation && !over)
}
