package deliver

import (
	"context"
	"fmt"

	"fedpost/internal/activity"
)

// keepForRetry keeps the activity if recipients have refused it: its queue message is
// about to go, and no other copy is left to try them again with. Like all effects it comes
// before the record.
func (u *unit) keepForRetry(ctx context.Context, refused bool) error {
	if !refused {
		return nil
	}
	if err := u.Ledger.KeepContent(ctx, u.a, u.keptUntil()); err != nil {
		return fmt.Errorf("keep an activity for a retry: %w", err)
	}
	return nil
}

// refused reports whether a recipient has just failed. A protocol that discards failures
// keeps nothing of them.
func (u *unit) refused() bool {
	for _, j := range u.jobs {
		if j.state == activity.Failed && !j.out.Discard {
			return true
		}
	}
	return false
}

// noted reports whether recipients of the unit have failed before. After a lapsed claim
// they may be known from a journal only, whose worker died before it kept the activity.
func (u *unit) noted() bool {
	for _, r := range u.known.Recipients {
		if r.State == activity.Failed && r.Note != discarded {
			return true
		}
	}
	return false
}
