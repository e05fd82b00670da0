package healthcheck

import (
	"context"
	"errors"

	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
)

// errLate ends a walk through a lot: the next run goes on.
var errLate = errors.New("it is too late to go on")

// endOverdue releases what has become too old to wait for its server, so that
// deliver gives it up, and returns how many deliveries that were. Sending one
// again within minutes is harmless: the ordered queue drops the second message.
func (r *Runner) endOverdue(ctx context.Context, s circuit.State) (int, error) {
	if !s.Parked {
		return 0, nil
	}
	ended := 0
	err := r.Lot.Overdue(ctx, s.Key, r.Now(), r.AtOnce, func(ps []parking.Parked) error {
		if r.late(ctx) {
			return errLate
		}
		ended += len(ps)
		return r.send(ctx, ps, parking.Release{Once: true})
	})
	if ended > 0 {
		r.Log.Info("released what is overdue", "server", s.Key, "released", ended)
	}
	if errors.Is(err, errLate) {
		err = nil
	}
	return ended, err
}

// empty releases all that is parked for a server that is blocked or gone: each
// delivery fails where every delivery comes to its end. Ordered ones go all at
// once too, since none of them is sent and there is no order to keep.
func (r *Runner) empty(ctx context.Context, s circuit.State) error {
	s, mine, err := r.claim(ctx, s, func(s circuit.State) circuit.State { return s.Begin(r.Rules, r.Rules.RampEvery, r.Now()) })
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
		r.Log.Info("released what is parked for a server that is refused", "server", s.Key, "phase", s.Phase, "released", released)
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
	ps, at, end, err := r.Lot.Next(ctx, s.Key, s.Sweep, n)
	if err != nil {
		return err
	}
	if err := r.send(ctx, ps, parking.Release{Spread: r.Rules.RampEvery}); err != nil {
		return err
	}
	if len(ps) > 0 {
		r.Log.Info("released parked deliveries", "server", s.Key, "released", len(ps), "of", n, "end", end)
	}
	if !end {
		_, err := r.change(ctx, s, func(s circuit.State) circuit.State { return s.Swept(r.Rules, at, r.Now()) })
		return err
	}
	return r.ifEmpty(ctx, s, func(s circuit.State) circuit.State {
		if at.Left {
			return s.Stuck(r.Rules, r.Now())
		}
		return s.Swept(r.Rules, circuit.Sweep{}, r.Now())
	})
}

// ifEmpty notes that the lot of s is empty, if it is, and applies otherwise if
// it is not.
func (r *Runner) ifEmpty(ctx context.Context, s circuit.State, otherwise func(circuit.State) circuit.State) error {
	empty, err := r.Lot.Empty(ctx, s.Key)
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

// drained notes that the lot of s was seen empty. Somebody may be parking just
// now: they look at the state after they have taken their spot, and here the lot
// is looked at after the state is saved, so one of both sees the other. A step
// stays due until that second look has succeeded.
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

// secondLook looks into a lot that the state of its server says to be empty, and
// makes a release due if it is not.
func (r *Runner) secondLook(ctx context.Context, s circuit.State) (circuit.State, error) {
	empty, err := r.Lot.Empty(ctx, s.Key)
	if err != nil || empty {
		return s, err
	}
	return r.change(ctx, s, func(s circuit.State) circuit.State { return s.Missed(r.Rules, r.Now()) })
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
