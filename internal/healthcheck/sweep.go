package healthcheck

import (
	"context"
	"errors"

	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
)

// overdue sends on their way, to be given up there, deliveries that have become
// too old to wait, and reports whether others still wait.
func (r *Runner) overdue(ctx context.Context, s circuit.State) (others bool, err error) {
	any := false
	for s.Parked && !r.late(ctx) {
		ps, err := r.Lot.Overdue(ctx, s.Key, r.Now(), r.AtOnce)
		if err != nil {
			return true, err
		}
		if err := r.send(ctx, ps, parking.Release{Once: true}); err != nil {
			return true, err
		}
		loose := 0
		for _, p := range ps {
			if p.Group == "" {
				loose++
			}
		}
		any = any || len(ps) > 0
		// Ordered ones stay in place until they are final.
		if loose == 0 {
			break
		}
	}
	if !s.Parked || (!any && s.Checks < r.Rules.Checks) {
		return s.Parked, nil
	}
	empty, err := r.Lot.Empty(ctx, s.Key)
	return !empty, err
}

// sweep saves next, which makes the step this run's, and releases the next n
// deliveries of its lot. At the end of the lot it settles how to go on.
func (r *Runner) sweep(ctx context.Context, next circuit.State, n int, how parking.Release) error {
	s, mine, err := r.save(ctx, next)
	if !mine {
		return err
	}
	ps, at, end, err := r.Lot.Next(ctx, s.Key, s.Sweep, n)
	if err != nil {
		return err
	}
	if err := r.send(ctx, ps, how); err != nil {
		return err
	}
	if len(ps) > 0 {
		r.Log.Info("released parked deliveries", "server", s.Key, "released", len(ps), "of", n, "end", end)
	}
	if !end {
		_, _, err := r.save(ctx, s.Swept(r.Rules, at, r.Now()))
		return err
	}
	if empty, err := r.Lot.Empty(ctx, s.Key); err != nil {
		return err
	} else if empty {
		return r.drained(ctx, s)
	}
	if at.Left && s.Phase == circuit.Recovering {
		_, _, err := r.save(ctx, s.Stuck(r.Rules, r.Now()))
		return err
	}
	_, _, err = r.save(ctx, s.Swept(r.Rules, circuit.Sweep{}, r.Now()))
	return err
}

// drained notes that the lot of s was seen empty. Somebody may be parking just
// now: they look at the state after they have taken their spot, and here the lot
// is looked at after the state is saved, so one of both sees the other.
func (r *Runner) drained(ctx context.Context, s circuit.State) error {
	s, mine, err := r.save(ctx, s.Drained(r.Rules, r.Now()))
	if !mine {
		return err
	}
	empty, err := r.Lot.Empty(ctx, s.Key)
	if err != nil || empty {
		return err
	}
	_, _, err = circuit.ChangeFrom(ctx, r.Servers, s, func(s circuit.State) circuit.State { return s.Missed(r.Rules, r.Now()) })
	return err
}

// send releases deliveries and empties the spots of those that do not keep them.
func (r *Runner) send(ctx context.Context, ps []parking.Parked, how parking.Release) error {
	if len(ps) == 0 {
		return nil
	}
	sent, err := r.Lot.Send(ctx, ps, how)
	r.Meter.Counted("Released", len(sent))
	return errors.Join(err, r.Lot.Unparked(ctx, sent))
}
