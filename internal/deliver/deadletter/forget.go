package deadletter

import (
	"context"
	"fmt"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/ledger"
	"fedpost/internal/servers/parking"
)

// Forgetter forgets activities: what was to be sent, to whom, and what became of it.
//
// The activity is cancelled first, so that no attempt begins any more; its record goes
// last and leaves a mark, by which workers drop messages that are still under way. A
// crash in between leaves a cancelled activity, and the request can be repeated.
type Forgetter struct {
	Ledger ForgetLedger
	Spots  ForgetSpots
	Store  Store
	Now    func() time.Time
}

// ForgetLedger is the part of the ledger's storage that forgetting needs.
type ForgetLedger interface {
	Activity(ctx context.Context, id activity.ID) (ledger.Record, error)
	Chunks(ctx context.Context, r ledger.Record, first, last int) ([]ledger.Chunk, error)
	CancelActivity(ctx context.Context, id activity.ID) error
	ForgetActivity(ctx context.Context, id activity.ID) error
}

// ForgetSpots is the part of the parking lots' storage that forgetting needs.
type ForgetSpots interface {
	IsParked(ctx context.Context, spots []parking.Spot) (map[parking.Spot]bool, error)
	Unpark(ctx context.Context, spots []parking.Spot) error
}

// Forget forgets an activity, or returns an error that wraps ledger.ErrNotFound. Attempts
// under way are finished, and not recorded. Messages on queues, and delayed ones on the
// agenda, go when their time comes. An ordered delivery that is parked keeps its spot
// until then, because the others of its group go on from it.
func (f Forgetter) Forget(ctx context.Context, id activity.ID) error {
	rec, err := f.Ledger.Activity(ctx, id)
	if err != nil {
		return err
	}
	if rec.Gone(f.Now()) {
		return fmt.Errorf("forget activity %s: %w", id, ledger.ErrNotFound)
	}
	if err := f.Ledger.CancelActivity(ctx, id); err != nil {
		return err
	}
	if rec.OrderingKey == "" {
		if err := f.unpark(ctx, rec); err != nil {
			return fmt.Errorf("forget activity %s: %w", id, err)
		}
	}
	if err := f.drop(ctx, rec.ID); err != nil {
		return fmt.Errorf("forget activity %s: %w", id, err)
	}
	return f.Ledger.ForgetActivity(ctx, rec.ID)
}

// unpark empties the spots of an activity.
func (f Forgetter) unpark(ctx context.Context, rec ledger.Record) error {
	for first := 0; first < rec.Chunks(); first += retryStep {
		chunks, err := f.Ledger.Chunks(ctx, rec, first, min(first+retryStep, rec.Chunks())-1)
		if err != nil {
			return err
		}
		spots := ledger.SpotsOf(rec, chunks)
		if len(spots) == 0 {
			continue
		}
		taken, err := f.Spots.IsParked(ctx, spots)
		if err != nil {
			return err
		}
		if len(taken) == 0 {
			continue
		}
		spots = spots[:0]
		for s := range taken {
			spots = append(spots, s)
		}
		if err := f.Spots.Unpark(ctx, spots); err != nil {
			return err
		}
	}
	return nil
}

// drop removes the dead letters of an activity.
func (f Forgetter) drop(ctx context.Context, id activity.ID) error {
	for cursor := ""; ; {
		ls, next, err := f.Store.DeadLetters(ctx, Filter{Activity: id}, cursor, forgetStep)
		if err != nil {
			return err
		}
		if err := f.Store.RemoveDeadLetters(ctx, ls); err != nil {
			return err
		}
		if cursor = next; next == "" {
			return nil
		}
	}
}

// forgetStep is how many dead letters are in memory at a time.
const forgetStep = 100
