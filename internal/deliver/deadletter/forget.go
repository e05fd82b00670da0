package deadletter

import (
	"context"
	"fmt"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/ledger"
	"fedpost/internal/servers/parking"
)

// Forgetter forgets activities: content, recipients and outcomes.
//
// The activity is cancelled first, so that no attempt begins any more. Its record goes last,
// and leaves a mark by which workers drop messages that are under way. After a crash the
// request can be repeated.
type Forgetter struct {
	Ledger ledger.Store
	Parked parking.Store
	Store  Store
	Now    func() time.Time
}

// Forget forgets an activity, or returns an error that wraps ledger.ErrNotFound. Attempts under
// way end and are not recorded. Messages and delayed tasks end when their time comes, and so
// does a parked ordered delivery, because its group goes on from its spot.
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

func (f Forgetter) unpark(ctx context.Context, rec ledger.Record) error {
	for first := 0; first < rec.Chunks(); first += retryStep {
		chunks, err := f.Ledger.Chunks(ctx, rec, first, min(first+retryStep, rec.Chunks())-1)
		if err != nil {
			return err
		}
		spots := ledger.ParkedIDs(rec, chunks)
		if len(spots) == 0 {
			continue
		}
		taken, err := f.Parked.IsParked(ctx, spots)
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
		if err := f.Parked.Unpark(ctx, spots); err != nil {
			return err
		}
	}
	return nil
}

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

// forgetStep is how many dead letters are in memory at once.
const forgetStep = 100
