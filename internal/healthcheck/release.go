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
	// An overdue delivery makes no attempt, so it cannot be the trial.
	_, dying, err := r.endOverdue(ctx, s)
	if err != nil {
		return err
	}
	if dying > 0 && r.awaitsDying(s) {
		_, _, err := r.claim(ctx, s, func(s circuit.State) circuit.State { return s.Begin(r.Rules, r.Rules.RampEvery, r.Now()) })
		return err
	}
	if host, whole := circuit.HostOf(s.Key); !whole {
		h, err := circuit.Load(ctx, r.Servers, circuit.HostKey(host))
		if err != nil {
			return err
		}
		if h.Decision(r.Now()) == circuit.Wait {
			return r.afterHost(ctx, s, h)
		}
	}
	if err := r.reviveFirst(ctx, s.Settled(r.Now())); err != nil {
		return err
	}
	from := s.Settled(r.Now()).Sweep
	c, err := r.candidate(ctx, s, from)
	p, waiting := c.p, c.waiting
	if err == nil && p == nil && from != (circuit.Sweep{}) {
		c, err = r.candidate(ctx, s, circuit.Sweep{})
		p, waiting = c.p, waiting || c.waiting
	}
	if err == nil && p != nil && !c.sole {
		var k *parking.Parked
		if k, err = r.known(ctx, s); k != nil {
			p = k
		}
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
		return s.TrialSent(r.Rules, p.Delivery.Targets[0].Inbox, c.sole, c.at, r.Now())
	})
	if !mine || !s.Trying(r.Now()) {
		return err
	}
	return r.send(ctx, []parking.Parked{*p}, parking.Release{Trial: true})
}

// candidates is among how many parked deliveries a trial looks for one to another
// inbox than the last trial's.
const candidates = 20

// candidate is what a look for a trial has found.
type candidate struct {
	p  *parking.Parked // nil: no delivery can be the trial
	at circuit.Sweep   // the place in the lot to go on from
	// waiting reports whether the lot has deliveries, overdue ones included, which are
	// being given up.
	waiting bool
	// sole reports that the whole lot was looked at, and has deliveries to one inbox only.
	sole bool
}

// sought is among how many parked deliveries a trial looks for one to the inbox that
// accepted a delivery last.
const sought = 1000

// known finds a parked delivery to the inbox that accepted one last, for the first trial of
// a check; nil if there is none. Otherwise somebody who names many inboxes of a server that
// take nothing would have all trials go to those.
func (r *Runner) known(ctx context.Context, s circuit.State) (*parking.Parked, error) {
	if s.Took == "" || s.Trials > 0 {
		return nil, nil
	}
	at, end := circuit.Sweep{}, false
	for seen := 0; seen < sought && !end; {
		var ps []parking.Parked
		var err error
		if ps, at, end, err = r.Lot.Next(ctx, s.Key, at, soughtPage); err != nil {
			return nil, err
		}
		for i := range ps {
			if inbox := ps[i].Delivery.Targets[0].Inbox; s.TookLast(inbox) && !ps[i].IsOverdue(r.Now()) {
				return &ps[i], nil
			}
		}
		seen += soughtPage
	}
	return nil, nil
}

// soughtPage is how many parked deliveries known reads at a time.
const soughtPage = 100

// candidate finds a delivery for a trial, from a place in the lot on.
func (r *Runner) candidate(ctx context.Context, s circuit.State, from circuit.Sweep) (candidate, error) {
	ps, at, end, err := r.Lot.Next(ctx, s.Key, from, candidates)
	if err != nil {
		return candidate{}, err
	}
	c := candidate{at: at, waiting: len(ps) > 0, sole: end && from == (circuit.Sweep{})}
	lately := func(p *parking.Parked) int { return s.TriedLately(p.Delivery.Targets[0].Inbox) }
	for i := range ps {
		p := &ps[i]
		c.sole = c.sole && p.Delivery.Targets[0].Inbox == ps[0].Delivery.Targets[0].Inbox
		if !p.IsOverdue(r.Now()) && (c.p == nil || lately(p) < lately(c.p)) {
			c.p = p
		}
	}
	return c, nil
}

// wait releases overdue deliveries of a paused server, so that they are given up. A run that
// dies or fails on the way has claimed the look for the time of a lease only.
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
