package healthcheck

import (
	"context"
	"errors"

	"fedpost/internal/health"
	"fedpost/internal/parking"
)

// trial sends the one parked delivery that decides whether a server is back. If
// it is not heard of in time another is sent, from further on in the lot: the
// first may be for an inbox that is broken on a server that is well.
func (r *Runner) trial(ctx context.Context, s health.State) error {
	if host, whole := health.HostOf(s.Key); !whole {
		h, err := health.Load(ctx, r.Servers, health.HostKey(host))
		if err != nil {
			return err
		}
		if h.Stance(r.Now()) == health.Wait {
			return r.afterHost(ctx, s, h)
		}
	}
	ps, at, _, err := r.Lot.Next(ctx, s.Key, s.Sweep, candidates)
	if err == nil && len(ps) == 0 && s.Sweep != (health.Sweep{}) {
		ps, at, _, err = r.Lot.Next(ctx, s.Key, health.Sweep{}, candidates)
	}
	if err != nil {
		return err
	}
	if len(ps) == 0 {
		return r.drained(ctx, s)
	}
	p := ps[0]
	for _, other := range ps {
		if !s.HasTried(other.Delivery.Targets[0].Inbox) {
			p = other
			break
		}
	}
	if s, mine, err := r.save(ctx, s.TrialSent(r.Rules, p.Delivery.Targets[0].Inbox, at, r.Now())); !mine {
		return err
	} else if !s.Trying() {
		return nil
	}
	return r.send(ctx, []parking.Parked{p}, parking.Release{Trial: true})
}

// candidates are how many parked deliveries are looked at to find one for
// another inbox than the last trial's.
const candidates = 20

// release takes the next step of a recovery.
func (r *Runner) release(ctx context.Context, s health.State) error {
	if !s.Parked {
		// Nothing to do: what is due was done, or was never.
		_, _, err := r.save(ctx, s.Idle(r.Rules, r.Now()))
		return err
	}
	n, next := s.NextRelease(r.Rules, r.Now())
	return r.sweep(ctx, next, n, parking.Release{Spread: r.Rules.RampEvery})
}

// empty releases what is parked for a server that is refused or gone: it will
// fail, one by one, where everything else does.
func (r *Runner) empty(ctx context.Context, s health.State) error {
	return r.sweep(ctx, s.Begin(r.Rules, r.Rules.RampEvery, r.Now()), r.AtOnce, parking.Release{})
}

// wait takes out of the lot of a paused server what is too old.
func (r *Runner) wait(ctx context.Context, s health.State) error {
	s, mine, err := r.save(ctx, s.Begin(r.Rules, r.Rules.CheckSlow, r.Now()))
	if !mine {
		return err
	}
	_, err = r.overdue(ctx, s)
	return err
}

// overdue sends on their way, to be given up there, deliveries that have become
// too old to wait, and reports whether others still wait.
func (r *Runner) overdue(ctx context.Context, s health.State) (others bool, err error) {
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
func (r *Runner) sweep(ctx context.Context, next health.State, n int, how parking.Release) error {
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
	if at.Left && s.Phase == health.Recovering {
		_, _, err := r.save(ctx, s.Stuck(r.Rules, r.Now()))
		return err
	}
	_, _, err = r.save(ctx, s.Swept(r.Rules, health.Sweep{}, r.Now()))
	return err
}

// drained notes that the lot of s was seen empty. Somebody may be parking just
// now: they look at the state after they have taken their spot, and here the lot
// is looked at after the state is saved, so one of both sees the other.
func (r *Runner) drained(ctx context.Context, s health.State) error {
	s, mine, err := r.save(ctx, s.Drained(r.Rules, r.Now()))
	if !mine {
		return err
	}
	empty, err := r.Lot.Empty(ctx, s.Key)
	if err != nil || empty {
		return err
	}
	_, _, err = health.ChangeFrom(ctx, r.Servers, s, func(s health.State) health.State { return s.Missed(r.Rules, r.Now()) })
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
