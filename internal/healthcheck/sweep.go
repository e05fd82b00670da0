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

// errLate ends a walk through a lot: the next run goes on.
var errLate = errors.New("it is too late to go on")

// endOverdue releases deliveries that are too old to wait for their server, so that
// package deliver gives them up. It returns how many, and how many of them are ordered. An
// ordered delivery that is released again within minutes is harmless: the queue drops the
// second message.
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

// empty releases all deliveries that are parked for a server that is blocked or gone,
// so that package deliver fails them. Ordered ones are released all at once, too: none
// of them is sent, so there is no order to keep.
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
		r.Log.InfoContext(ctx, "released what is parked for a server that is refused", "server", s.Key, "phase", s.Phase, "released", released)
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

// release takes the next step of a recovery: it releases the next few deliveries
// of the lot.
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
		// An overdue delivery makes no attempt. If it took a turn under the limit, a lot
		// that is older than deliveries may wait would use up all turns for nothing.
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
		// Nor does it take a place in the ramp, for the same reason.
		if _, _, err := r.endOverdue(ctx, s); err != nil {
			return err
		}
		if ps, at, end, err = r.Lot.Next(ctx, s.Key, s.Sweep, n); err != nil {
			return err
		}
		ps = slices.DeleteFunc(ps, overdue)
	}
	// The method heads releases heads that have a due time of their own.
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
		return nil // the others are found in the same place at the next step
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

// apart returns first the deliveries with a due time of their own.
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

// turns books slots under the server's rate limit, if there is one, for deliveries
// that are to be released. It returns the deliveries whose slots are within this step.
// At least one gets a slot, so that slots booked far ahead by others cannot stop the
// release for good. The head of an ordered group keeps its spot, with the slot as its
// due time.
func (r *Runner) bookSlots(ctx context.Context, s circuit.State, ps []parking.Parked) ([]parking.Parked, error) {
	host, _ := circuit.HostOf(s.Key)
	if len(ps) == 0 || r.Limits == nil || s.Limited(r.Now()) == 0 {
		return ps, nil
	}
	slots, err := r.Limits.Book(ctx, host, len(ps), r.Rules.RampEvery)
	if err != nil {
		return nil, fmt.Errorf("book turns: %w", err)
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
		if err := r.Lot.Spots.Park(ctx, heads); err != nil {
			return nil, fmt.Errorf("give ordered groups their turns: %w", err)
		}
	}
	return ps, nil
}

// ifEmpty saves that the lot of s is empty, and that no dead delivery is to be parked
// there again. If the lot is not empty, it applies otherwise to the state instead, unless
// otherwise is nil.
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

// drained saves that the lot of s was seen empty. A worker may be parking at this
// moment: it takes its spot and then reads the state; drained saves the state and then
// looks into the lot again. So at least one of the two sees the other. A step stays due
// until the second look has succeeded.
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

// secondLook looks into a lot whose server's state says that it is empty. If it is not,
// secondLook makes a release due.
func (r *Runner) secondLook(ctx context.Context, s circuit.State) (circuit.State, error) {
	empty, err := r.nothingWaits(ctx, s)
	if err != nil || empty {
		return s, err
	}
	return r.change(ctx, s, func(s circuit.State) circuit.State { return s.Missed(r.Rules, r.Now()) })
}

// send releases deliveries, and empties the spots of unordered ones.
func (r *Runner) send(ctx context.Context, ps []parking.Parked, how parking.Release) error {
	if len(ps) == 0 {
		return nil
	}
	sent, err := r.Lot.Send(ctx, ps, how)
	r.Meter.Counted("Released", len(sent))
	return errors.Join(err, r.Lot.Unparked(ctx, sent))
}
