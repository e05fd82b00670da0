package healthcheck

import (
	"cmp"
	"context"

	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
)

// trial sends the parked delivery that decides whether a server is back. If its outcome does
// not come in time, the next trial is one further on in the lot, as the first may be to a
// broken inbox.
func (r *Runner) trial(ctx context.Context, s circuit.State) error {
	// An overdue delivery is not attempted, so it cannot be the trial.
	_, dying, err := r.endOverdue(ctx, s)
	if err != nil {
		return err
	}
	if dying > 0 && r.awaitsDying(s) {
		_, _, err := r.claim(ctx, s, func(s circuit.State) circuit.State { return s.Begin(r.Rules, r.Rules.RampEvery, r.Now()) })
		return err
	}
	took := s.Took
	if host, whole := circuit.HostOf(s.Key); !whole {
		h, err := circuit.Load(ctx, r.Servers, circuit.HostKey(host))
		if err != nil {
			return err
		}
		took = cmp.Or(took, h.Took)
		if h.Decision(r.Now()) == circuit.Wait {
			return r.afterHost(ctx, s, h)
		}
	}
	if err := r.reviveFirst(ctx, s.Settled(r.Now())); err != nil {
		return err
	}
	c, err := r.candidate(ctx, s.Settled(r.Now()))
	p, waiting := c.p, c.waiting
	if err == nil && p != nil && !c.sole {
		var k *parking.Parked
		if k, err = r.known(ctx, s, took); k != nil {
			p = k
		}
	}
	switch {
	case err != nil:
		return err
	case p == nil && !waiting:
		return r.ifEmpty(ctx, s, nil)
	case p == nil:
		// Overdue ordered deliveries, released above, stay in the lot until they are final.
		_, _, err := r.claim(ctx, s, func(s circuit.State) circuit.State { return s.Begin(r.Rules, r.Rules.RampEvery, r.Now()) })
		return err
	}
	s, mine, err := r.claim(ctx, s, func(s circuit.State) circuit.State {
		return s.TrialSent(r.Rules, p.Delivery.Targets[0].Inbox, c.sole, c.at, r.Now())
	})
	if !mine || !s.Trying(r.Now()) {
		return err
	}
	return r.send(ctx, []parking.Parked{*p}, parking.Release{Trial: true})
}

// wait releases overdue deliveries of a paused server. Until that has succeeded, the step is
// claimed for a lease only.
func (r *Runner) wait(ctx context.Context, s circuit.State) error {
	s, mine, err := r.claim(ctx, s, func(s circuit.State) circuit.State { return s.Begin(r.Rules, r.lease(), r.Now()) })
	if !mine {
		return err
	}
	ended, _, err := r.endOverdue(ctx, s)
	if err != nil {
		return err
	}
	s, err = r.change(ctx, s, func(s circuit.State) circuit.State {
		if s.Settled(r.Now()).Phase != circuit.Paused {
			return s
		}
		return s.Begin(r.Rules, r.Rules.CheckSlow, r.Now())
	})
	if err != nil || ended == 0 {
		return err
	}
	return r.ifEmpty(ctx, s, nil)
}
