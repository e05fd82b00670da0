package healthcheck

import (
	"context"
	"slices"
	"time"

	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
)

// candidates is how many parked deliveries a trial chooses from, and reach among how many it
// looks for one to an inbox that this check has not tried.
const (
	candidates = 20
	reach      = 200
)

// candidate is what a look for a trial has found.
type candidate struct {
	p  *parking.Parked // nil: no delivery can be the trial
	at circuit.Sweep   // the place in the lot to go on from
	// waiting reports whether the lot has deliveries, overdue ones included, which are
	// being given up.
	waiting bool
	// sole reports that no delivery within reach is to an inbox that this check has left to
	// try after p.
	sole bool
}

// sought is among how many parked deliveries a trial looks for one to the inbox that
// accepted a delivery last.
const sought = 1000

// known finds a parked delivery to the inbox that accepted one last, which took stands for, for
// the first trial of a check; nil if there is none. Otherwise somebody who names many inboxes of a server that
// take nothing would have all trials go to those.
func (r *Runner) known(ctx context.Context, s circuit.State, took string) (*parking.Parked, error) {
	if s.Took = took; took == "" || s.Trials > 0 {
		return nil, nil
	}
	_, whole := circuit.HostOf(s.Key) // any other has one trial a check
	at, end := circuit.Sweep{}, false
	for seen := 0; seen < sought && !end; {
		var ps []parking.Parked
		var err error
		if ps, at, end, err = r.Lot.Next(ctx, s.Key, at, soughtPage); err != nil {
			return nil, err
		}
		for i := range ps {
			inbox := ps[i].Delivery.Targets[0].Inbox
			if s.TookLast(inbox) && !ps[i].IsOverdue(r.Now()) && (whole || s.TriedLately(inbox) == 0) {
				return &ps[i], nil
			}
		}
		seen += soughtPage
	}
	return nil, nil
}

// soughtPage is how many parked deliveries known reads at a time.
const soughtPage = 100

// candidate finds a delivery for a trial, from the place in the lot on that the last trial
// has left: the first that is to an inbox which this check has not tried, or else any. It
// goes on for as long as no further inbox is left to try.
func (r *Runner) candidate(ctx context.Context, s circuit.State) (candidate, error) {
	c := candidate{at: s.Sweep, sole: true}
	c.at.Left = false // of no use here: the lot is looked at up to its end
	whole := c.at == circuit.Sweep{}
	for at, seen := c.at, 0; c.sole && seen < reach; {
		ps, next, end, err := r.Lot.Next(ctx, s.Key, at, candidates)
		if err != nil {
			return candidate{}, err
		}
		if next.Left = false; end {
			next = circuit.Sweep{}
		}
		chosen := c.chosen(s)
		if c.among(s, ps, r.Now()); c.sole || !chosen {
			c.at = next
		}
		if end && whole {
			break
		}
		at, seen, whole = next, seen+len(ps), whole || end
	}
	return c, nil
}

// chosen reports whether the trial is to an inbox that this check has not tried.
func (c *candidate) chosen(s circuit.State) bool {
	return c.p != nil && !s.TriedNow(c.p.Delivery.Targets[0].Inbox)
}

// among adds what a page of a lot has to a look for a trial.
func (c *candidate) among(s circuit.State, ps []parking.Parked, now time.Time) {
	c.waiting = c.waiting || len(ps) > 0
	ps = slices.DeleteFunc(ps, func(p parking.Parked) bool { return p.IsOverdue(now) })
	lately := func(p *parking.Parked) int { return s.TriedLately(p.Delivery.Targets[0].Inbox) }
	if !c.chosen(s) {
		for i := range ps {
			if c.p == nil || lately(&ps[i]) < lately(c.p) {
				c.p = &ps[i]
			}
		}
	}
	c.sole = c.sole && !slices.ContainsFunc(ps, func(p parking.Parked) bool {
		inbox := p.Delivery.Targets[0].Inbox
		return inbox != c.p.Delivery.Targets[0].Inbox && !s.TriedNow(inbox)
	})
}
