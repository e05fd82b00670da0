package intake

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/message/claimcheck"
)

// Abandon moves a message for whole activities to the dead-letter queue. Recipients for which
// there is no other message are dead then.
func (in *Intake) Abandon(ctx context.Context, w Work, reason string, why error) (Disposition, error) {
	if err := in.lose(ctx, w.Message, outcome.Clean(reason+": "+why.Error(), 512), 0); err != nil {
		return Disposition{}, err
	}
	return in.Reject(ctx, w.From, w.Received, reason, why)
}

// lose records that the activities of a message were given up. A claim check names only the
// first of them.
func (in *Intake) lose(ctx context.Context, msg message.Message, why string, depth int) error {
	var errs []error
	for _, inner := range msg.Batch {
		errs = append(errs, in.lose(ctx, inner, why, depth))
	}
	if msg.Activity != nil {
		_, err := in.loseOne(ctx, msg.Activity.ID, why)
		errs = append(errs, err)
	}
	if msg.Ref != nil {
		inner, err := in.Behind(ctx, *msg.Ref, depth)
		switch {
		case err == nil:
			if err := in.makeUpAll(ctx, inner); err != nil {
				return err
			}
			return in.lose(ctx, inner, why, depth+1)
		case !errors.Is(err, claimcheck.ErrNotFound) && !errors.Is(err, claimcheck.ErrDamaged):
			return err
		}
		first, _, _ := strings.Cut(msg.Ref.ID, "/")
		for i := 0; ; i++ {
			found, err := in.loseOne(ctx, activity.InBatch(activity.ID(first), i), why)
			errs = append(errs, err)
			if !found || err != nil {
				break
			}
		}
	}
	return errors.Join(errs...)
}

func (in *Intake) loseOne(ctx context.Context, id activity.ID, why string) (found bool, err error) {
	first, err := in.Ledger.LoseActivity(ctx, id, why)
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("give up activity %s: %w", id, err)
	case !first:
		return true, nil
	}
	lost, err := in.lost(ctx, id)
	if err != nil {
		return false, fmt.Errorf("count what is lost of activity %s: %w", id, err)
	}
	in.Meter.Recorded([]ledger.Recipient{{State: activity.Dead, Target: activity.Target{Stands: lost}}})
	return true, nil
}

// lost counts the recipients for which there is no message after that of the whole activity was
// given up: those of chunks that are not planned or, if there is only one chunk, those without
// a record.
func (in *Intake) lost(ctx context.Context, id activity.ID) (int, error) {
	const page = 100
	r, err := in.Ledger.Activity(ctx, id)
	if err != nil {
		return 0, err
	}
	lost := r.Recipients
	for from := 0; from < r.Chunks(); from += page {
		cs, err := in.Ledger.Chunks(ctx, r, from, min(from+page, r.Chunks())-1)
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

// maxDepth bounds claim checks within claim checks: a batch may refer to a stored fan-out, and
// be stored itself.
const maxDepth = 3

// Behind returns the message of a claim check, which is within depth others.
func (in *Intake) Behind(ctx context.Context, ref message.Ref, depth int) (message.Message, error) {
	if depth == maxDepth {
		return message.Message{}, fmt.Errorf("%w: claim checks %d deep", claimcheck.ErrDamaged, depth)
	}
	body, err := claimcheck.Get(ctx, in.Payloads, ref.ID, ref.Parts)
	if err != nil {
		return message.Message{}, err
	}
	m, err := message.Decode(body)
	if errors.Is(err, message.ErrNewer) {
		return message.Message{}, err
	}
	if err != nil {
		return message.Message{}, fmt.Errorf("%w: %w", claimcheck.ErrDamaged, err)
	}
	return m, nil
}
