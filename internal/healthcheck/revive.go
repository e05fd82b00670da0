package healthcheck

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"fedpost/internal/servers/circuit"
)

// Deliveries that died because their server was down are parked again when it is back: as many as
// one step releases, each time that the lot is empty.
//
// Ordered ones are parked before the first trial, so that they stay first in their groups. If
// the circuit was closed without a trial (by an operator, or by a pause), younger ones may have
// gone first, and they stay dead.

const reviveAtOnce = 100

// reviving reports whether the server of s may have dead deliveries to revive.
func (r *Runner) reviving(s circuit.State) bool {
	_, whole := circuit.HostOf(s.Key)
	return whole && r.Dead != nil && r.Rules.Revive > 0 && s.Reviving(r.Now())
}

// revive parks up to most dead deliveries again, fewer if the run ends.
func (r *Runner) revive(ctx context.Context, s circuit.State, ordered bool, since time.Time, most int) (parked int, err error) {
	host, _ := circuit.HostOf(s.Key)
	for cursor := ""; parked < most; {
		if r.late(ctx) {
			err = errLate
			break
		}
		var some int
		some, cursor, err = r.Dead.ParkAgain(ctx, host, ordered, since, cursor, min(reviveAtOnce, most-parked))
		parked += some
		if err != nil || cursor == "" {
			break
		}
	}
	if parked > 0 {
		r.Meter.Counted("Revived", parked)
		r.Log.InfoContext(ctx, "parked dead deliveries again, because their server is back", "server", s.Key, "parked", parked, "ordered", ordered)
	}
	if err != nil {
		return parked, fmt.Errorf("revive what died for %s: %w", s.Key, err)
	}
	return parked, nil
}

// reviveFirst parks what has to be in the lot before a trial: ordered deliveries that died in
// this outage and, if the lot is empty, one other. The rest waits until a trial has passed.
func (r *Runner) reviveFirst(ctx context.Context, s circuit.State) error {
	if !r.reviving(s) {
		return nil
	}
	if !s.DownSince.IsZero() {
		if _, err := r.revive(ctx, s, true, s.DownSince, math.MaxInt); err != nil {
			return err
		}
	}
	empty, err := r.Lot.Empty(ctx, s.Key)
	if err != nil || !empty {
		return err
	}
	_, err = r.revive(ctx, s, false, time.Time{}, 1)
	return err
}

// dyingSteps is how many steps a trial waits for ordered deliveries to die.
const dyingSteps = 10

// awaitsDying reports whether the trial of s waits until overdue ordered deliveries have died,
// so that they are revived before it. A queue that lags delays it by at most dyingSteps.
func (r *Runner) awaitsDying(s circuit.State) bool {
	_, whole := circuit.HostOf(s.Key)
	since := s.Settled(r.Now()).Since
	return whole && r.Dead != nil && r.Rules.Revive > 0 && r.Now().Sub(since) < dyingSteps*r.Rules.RampEvery
}

// nothingWaits reports whether the lot of s is empty and no dead delivery is to be revived. It
// revives some if the server accepts deliveries.
func (r *Runner) nothingWaits(ctx context.Context, s circuit.State) (bool, error) {
	empty, err := r.Lot.Empty(ctx, s.Key)
	if err != nil || !empty || !r.reviving(s) {
		return empty, err
	}
	if !s.Accepts(r.Now()) && !s.Trying(r.Now()) {
		return false, nil
	}
	n, err := r.revive(ctx, s, false, time.Time{}, r.Rules.Ramp[len(r.Rules.Ramp)-1])
	if n > 0 && errors.Is(err, errLate) {
		return false, nil // the next step finds what is parked
	}
	return n == 0, err
}
