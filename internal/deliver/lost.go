package deliver

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/message/claimcheck"
)

// abandon moves a message that stands for whole activities to the dead-letter queue. The
// recipients that no other message stands for are dead then.
func (v *invocation) abandon(ctx context.Context, m queue.Received, msg message.Message, reason string, why error) (disposition, error) {
	if err := v.lose(ctx, msg, outcome.Clean(reason+": "+why.Error(), 512), 0); err != nil {
		return disposition{}, err
	}
	return v.reject(ctx, m, reason, why)
}

// lose records that the activities of a message were given up. A claim check names the first
// of them only.
func (v *invocation) lose(ctx context.Context, msg message.Message, why string, depth int) error {
	var errs []error
	for _, inner := range msg.Batch {
		errs = append(errs, v.lose(ctx, inner, why, depth))
	}
	if msg.Activity != nil {
		_, err := v.loseOne(ctx, msg.Activity.ID, why)
		errs = append(errs, err)
	}
	if msg.Ref != nil {
		inner, err := v.behind(ctx, *msg.Ref, depth)
		switch {
		case err == nil:
			if err := v.makeUpAll(ctx, inner); err != nil {
				return err
			}
			return v.lose(ctx, inner, why, depth+1)
		case !errors.Is(err, claimcheck.ErrNotFound) && !errors.Is(err, claimcheck.ErrDamaged):
			return err
		}
		first, _, _ := strings.Cut(msg.Ref.ID, "/")
		for i := 0; ; i++ {
			found, err := v.loseOne(ctx, activity.InBatch(activity.ID(first), i), why)
			errs = append(errs, err)
			if !found || err != nil {
				break
			}
		}
	}
	return errors.Join(errs...)
}

func (v *invocation) loseOne(ctx context.Context, id activity.ID, why string) (found bool, err error) {
	first, err := v.Ledger.LoseActivity(ctx, id, why)
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("give up activity %s: %w", id, err)
	case !first:
		return true, nil
	}
	lost, err := v.lost(ctx, id)
	if err != nil {
		return false, fmt.Errorf("count what is lost of activity %s: %w", id, err)
	}
	v.Meter.Recorded([]ledger.Recipient{{State: activity.Dead, Target: activity.Target{Stands: lost}}})
	return true, nil
}

// lost counts the recipients that no message stands for after that of the whole activity was
// given up: those of chunks that are not planned, or, if there is one chunk only, those
// without a record.
func (v *invocation) lost(ctx context.Context, id activity.ID) (int, error) {
	const page = 100
	r, err := v.Ledger.Activity(ctx, id)
	if err != nil {
		return 0, err
	}
	lost := r.Recipients
	for from := 0; from < r.Chunks(); from += page {
		cs, err := v.Ledger.Chunks(ctx, r, from, min(from+page, r.Chunks())-1)
		if err != nil {
			return 0, err
		}
		for _, c := range cs {
			for p, t := range c.Targets {
				if _, recorded := c.Recipients[p]; recorded || r.Inline == nil {
					lost -= max(1, t.Stands)
				}
			}
		}
	}
	return lost, nil
}
