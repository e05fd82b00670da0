package healthcheck

import (
	"context"

	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
)

// trial sends the one parked delivery that decides whether a server is back. If
// it is not heard of in time another is sent, from further on in the lot: the
// first may be for an inbox that is broken on a server that is well.
func (r *Runner) trial(ctx context.Context, s circuit.State) error {
	if host, whole := circuit.HostOf(s.Key); !whole {
		h, err := circuit.Load(ctx, r.Servers, circuit.HostKey(host))
		if err != nil {
			return err
		}
		if h.Decision(r.Now()) == circuit.Wait {
			return r.afterHost(ctx, s, h)
		}
	}
	ps, at, _, err := r.Lot.Next(ctx, s.Key, s.Sweep, candidates)
	if err == nil && len(ps) == 0 && s.Sweep != (circuit.Sweep{}) {
		ps, at, _, err = r.Lot.Next(ctx, s.Key, circuit.Sweep{}, candidates)
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
func (r *Runner) release(ctx context.Context, s circuit.State) error {
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
func (r *Runner) empty(ctx context.Context, s circuit.State) error {
	return r.sweep(ctx, s.Begin(r.Rules, r.Rules.RampEvery, r.Now()), r.AtOnce, parking.Release{})
}

// wait takes out of the lot of a paused server what is too old.
func (r *Runner) wait(ctx context.Context, s circuit.State) error {
	s, mine, err := r.save(ctx, s.Begin(r.Rules, r.Rules.CheckSlow, r.Now()))
	if !mine {
		return err
	}
	_, err = r.overdue(ctx, s)
	return err
}
