package healthcheck

import (
	"context"

	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
)

// trial sends the one parked delivery that decides whether a server is back. If that
// delivery's outcome does not come in time, the next trial takes a delivery from
// further on in the lot, because the first may be for a broken inbox on a healthy
// server.
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
	// An overdue delivery makes no attempt, so it cannot be the trial.
	if _, err := r.endOverdue(ctx, s); err != nil {
		return err
	}
	from := s.Settled(r.Now()).Sweep
	p, at, waiting, err := r.candidate(ctx, s, from)
	if err == nil && p == nil && from != (circuit.Sweep{}) {
		var more bool
		p, at, more, err = r.candidate(ctx, s, circuit.Sweep{})
		waiting = waiting || more
	}
	switch {
	case err != nil:
		return err
	case p == nil && !waiting:
		return r.ifEmpty(ctx, s, nil)
	case p == nil:
		// Overdue ordered deliveries, released above, keep their spots until they are
		// final.
		_, _, err := r.claim(ctx, s, func(s circuit.State) circuit.State { return s.Begin(r.Rules, r.Rules.RampEvery, r.Now()) })
		return err
	}
	s, mine, err := r.claim(ctx, s, func(s circuit.State) circuit.State {
		return s.TrialSent(r.Rules, p.Delivery.Targets[0].Inbox, at, r.Now())
	})
	if !mine || !s.Trying(r.Now()) {
		return err
	}
	return r.send(ctx, []parking.Parked{*p}, parking.Release{Trial: true})
}

// candidates is among how many parked deliveries a trial looks for one to another
// inbox than the last trial's.
const candidates = 20

// candidate finds a delivery for a trial, from a place in the lot on. at is the place
// to go on from. If p is nil, waiting reports whether the lot has overdue deliveries
// that are being given up.
func (r *Runner) candidate(ctx context.Context, s circuit.State, from circuit.Sweep) (p *parking.Parked, at circuit.Sweep, waiting bool, err error) {
	ps, at, _, err := r.Lot.Next(ctx, s.Key, from, candidates)
	if err != nil {
		return nil, at, false, err
	}
	for i := range ps {
		switch other := &ps[i]; {
		case other.IsOverdue(r.Now()):
			waiting = true
		case !s.HasTried(other.Delivery.Targets[0].Inbox):
			return other, at, true, nil
		case p == nil:
			p = other
		}
	}
	return p, at, waiting || p != nil, nil
}

// wait releases overdue deliveries of a paused server, so that they are given up.
func (r *Runner) wait(ctx context.Context, s circuit.State) error {
	s, mine, err := r.claim(ctx, s, func(s circuit.State) circuit.State { return s.Begin(r.Rules, r.Rules.CheckSlow, r.Now()) })
	if !mine {
		return err
	}
	ended, err := r.endOverdue(ctx, s)
	if err != nil || ended == 0 {
		return err
	}
	return r.ifEmpty(ctx, s, nil)
}
