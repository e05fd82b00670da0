package healthcheck

import (
	"context"
	"slices"
	"time"

	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
)

// candidates is how many parked deliveries are read at once for a trial, and reach how many in
// all, to find one to an inbox that this check has not tried.
const (
	candidates = 20
	reach      = 200
)

// candidate is the delivery that was found for a trial.
type candidate struct {
	p  *parking.Parked // nil: none can be the trial
	at circuit.Sweep   // the position in the lot to go on from
	// waiting: the lot has deliveries, including overdue ones that are being given up.
	waiting bool
	// sole: within reach, the inbox of p is the only one that this check has left to try.
	sole bool
}

// sought bounds the parked deliveries that known reads.
const sought = 1000

// known finds a parked delivery to the inbox that accepted one last (took); nil if there is none.
// It is for the first trial of a check, and for every tenth. Without these trials, anybody who
// names many broken inboxes of a server would get all of its trials.
func (r *Runner) known(ctx context.Context, s circuit.State, took string) (*parking.Parked, error) {
	if s.Took = took; took == "" || s.Trials%10 > 0 {
		return nil, nil
	}
	_, whole := circuit.HostOf(s.Key) // an inbox has one trial a check
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

const soughtPage = 100

// candidate finds a delivery for a trial, from the position of the last trial on: the first to
// an inbox that this check has not tried, or else any.
func (r *Runner) candidate(ctx context.Context, s circuit.State) (candidate, error) {
	c := candidate{at: s.Sweep, sole: true}
	c.at.Left = false // not used by trials
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

// chosen reports whether p is to an inbox that this check has not tried.
func (c *candidate) chosen(s circuit.State) bool {
	return c.p != nil && !s.TriedNow(c.p.Delivery.Targets[0].Inbox)
}

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
