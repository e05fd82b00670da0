package healthcheck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
)

// errLate ends a walk through a lot; the next run goes on.
var errLate = errors.New("it is too late to go on")

// endOverdue releases overdue deliveries, for package deliver to give up. It returns how many,
// and how many of them are ordered. The queue drops a repetition of an ordered one.
func (r *Runner) endOverdue(ctx context.Context, s circuit.State) (ended, ordered int, err error) {
	if !s.Parked {
		return 0, 0, nil
	}
	err = r.Lot.Overdue(ctx, s.Key, r.Now(), r.AtOnce, func(ps []parking.Parked) error {
		if r.late(ctx) {
			return errLate
		}
		ended += len(ps)
		for _, p := range ps {
			if p.Group != "" {
				ordered++
			}
		}
		return r.send(ctx, ps, parking.Release{Once: true})
	})
	if ended > 0 {
		r.Log.InfoContext(ctx, "released what is overdue", "server", s.Key, "released", ended)
	}
	if errors.Is(err, errLate) {
		err = nil
	}
	return ended, ordered, err
}

// empty releases all deliveries that are parked for a server that is blocked or gone, for
// package deliver to fail. Ordered ones are released at once, too, as none is sent.
func (r *Runner) empty(ctx context.Context, s circuit.State) error {
	s, mine, err := r.claim(ctx, s, func(s circuit.State) circuit.State {
		return s.LeftDead(r.Rules, r.Now()).Begin(r.Rules, r.Rules.RampEvery, r.Now())
	})
	if !mine {
		return err
	}
	released := 0
	err = r.Lot.All(ctx, s.Key, r.AtOnce, func(ps []parking.Parked) error {
		if r.late(ctx) {
			return errLate
		}
		released += len(ps)
		return r.send(ctx, ps, parking.Release{Once: true})
	})
	if released > 0 {
		r.Log.InfoContext(ctx, "released what is parked for a server that is blocked or gone", "server", s.Key, "phase", s.Phase, "released", released)
	}
	if err == nil && s.Phase == circuit.Blocked {
		s, err = r.hasten(ctx, s)
	}
	if errors.Is(err, errLate) {
		return nil
	}
	if err != nil {
		return err
	}
	return r.ifEmpty(ctx, s, nil)
}

func (r *Runner) release(ctx context.Context, s circuit.State) error {
	n := 0
	s, mine, err := r.claim(ctx, s, func(s circuit.State) (next circuit.State) {
		if !s.Parked {
			return s.Idle(r.Rules, r.Now())
		}
		n, next = s.NextRelease(r.Rules, r.Now())
		return next
	})
	if !mine || !s.Parked {
		return err
	}
	if s.Limited(r.Now()) > 0 {
		// An overdue delivery is not attempted, and must not use up a slot: an old lot would
		// use up all.
		if _, _, err := r.endOverdue(ctx, s); err != nil {
			return err
		}
	}
	ps, at, end, err := r.Lot.Next(ctx, s.Key, s.Sweep, n)
	if err != nil {
		return err
	}
	overdue := func(p parking.Parked) bool { return p.IsOverdue(r.Now()) }
	if slices.ContainsFunc(ps, func(p parking.Parked) bool { return p.Group == "" && overdue(p) }) {
		// Overdue deliveries do not count for the ramp either.
		if _, _, err := r.endOverdue(ctx, s); err != nil {
			return err
		}
		if ps, at, end, err = r.Lot.Next(ctx, s.Key, s.Sweep, n); err != nil {
			return err
		}
		ps = slices.DeleteFunc(ps, overdue)
	}
	// The method heads releases those with a due time.
	ps = slices.DeleteFunc(ps, func(p parking.Parked) bool { return !p.Due.IsZero() })
	waiting := len(ps)
	if ps, err = r.bookSlots(ctx, s, ps); err != nil {
		return err
	}
	heads, loose := apart(ps)
	err = errors.Join(r.send(ctx, heads, parking.Release{Once: true}), r.send(ctx, loose, parking.Release{Spread: r.Rules.RampEvery}))
	if err != nil {
		return err
	}
	if len(ps) > 0 {
		r.Log.InfoContext(ctx, "released parked deliveries", "server", s.Key, "released", len(ps), "of", n, "end", end)
	}
	if len(ps) < waiting {
		return nil // the next step finds the others in the same position
	}
	if !end {
		_, err := r.change(ctx, s, func(s circuit.State) circuit.State { return s.Swept(r.Rules, at, r.Now()) })
		return err
	}
	any := true
	if at.Left {
		if any, err = r.Lot.AnyLoose(ctx, s.Key); err != nil {
			return err
		}
	}
	return r.ifEmpty(ctx, s, func(s circuit.State) circuit.State {
		if !any {
			return s.Stuck(r.Rules, r.Now())
		}
		return s.Swept(r.Rules, circuit.Sweep{}, r.Now())
	})
}

func apart(ps []parking.Parked) (due, others []parking.Parked) {
	for _, p := range ps {
		if p.Due.IsZero() {
			others = append(others, p)
		} else {
			due = append(due, p)
		}
	}
	return due, others
}

// bookSlots books slots under the server's rate limit, if it has one, and returns the
// deliveries whose slots are within this step. One at least gets a slot, whatever others have
// booked. The head of an ordered group stays in the lot, with the slot as its due time.
func (r *Runner) bookSlots(ctx context.Context, s circuit.State, ps []parking.Parked) ([]parking.Parked, error) {
	host, _ := circuit.HostOf(s.Key)
	if len(ps) == 0 || r.Limits == nil || s.Limited(r.Now()) == 0 {
		return ps, nil
	}
	slots, err := r.Limits.Book(ctx, host, len(ps), r.Rules.RampEvery)
	if err != nil {
		return nil, fmt.Errorf("book slots under the rate limit: %w", err)
	}
	if len(slots) == 0 {
		slots = []time.Time{r.Now().Add(r.Rules.RampEvery)}
	}
	ps = ps[:min(len(ps), len(slots))]
	var heads []parking.Parked
	for i := range ps {
		ps[i].Delivery.Slot = slots[i]
		if ps[i].Group != "" {
			ps[i].Due = slots[i]
			heads = append(heads, ps[i])
		}
	}
	if len(heads) > 0 {
		if err := r.Lot.Store.Park(ctx, heads); err != nil {
			return nil, fmt.Errorf("park ordered deliveries until their slots: %w", err)
		}
	}
	return ps, nil
}

// ifEmpty saves that the lot of s is empty, without dead deliveries to revive. If it is not, it
// applies otherwise to the state, if set.
func (r *Runner) ifEmpty(ctx context.Context, s circuit.State, otherwise func(circuit.State) circuit.State) error {
	empty, err := r.nothingWaits(ctx, s)
	switch {
	case err != nil:
		return err
	case empty:
		return r.drained(ctx, s)
	case otherwise == nil:
		return nil
	}
	_, err = r.change(ctx, s, otherwise)
	return err
}

// drained saves that the lot of s was seen empty, and looks again. A worker that parks now
// stores its delivery before it reads the state, so one of the two sees the other. A step stays due
// until the second look.
func (r *Runner) drained(ctx context.Context, s circuit.State) error {
	s, err := r.change(ctx, s, func(s circuit.State) circuit.State { return s.Drained(r.Rules, r.Now()) })
	if err != nil {
		return err
	}
	s, err = r.secondLook(ctx, s)
	if err != nil || s.Parked {
		return err
	}
	_, err = r.change(ctx, s, func(s circuit.State) circuit.State { return s.Emptied(r.Rules, r.Now()) })
	return err
}

// secondLook makes a release due if a lot is not empty whose server's state says so.
func (r *Runner) secondLook(ctx context.Context, s circuit.State) (circuit.State, error) {
	empty, err := r.nothingWaits(ctx, s)
	if err != nil || empty {
		return s, err
	}
	return r.change(ctx, s, func(s circuit.State) circuit.State { return s.Missed(r.Rules, r.Now()) })
}

func (r *Runner) send(ctx context.Context, ps []parking.Parked, how parking.Release) error {
	if len(ps) == 0 {
		return nil
	}
	sent, err := r.Lot.Send(ctx, ps, how)
	r.Meter.Counted("Released", len(sent))
	return errors.Join(err, r.Lot.Unparked(ctx, sent))
}
