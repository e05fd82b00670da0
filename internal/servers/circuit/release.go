package circuit

import (
	"cmp"
	"time"
)

// Park says that a delivery is about to be parked for the server. It sets Parked and makes a
// step due; if both are so already, it returns s.
func (s State) Park(r Rules, now time.Time) State {
	if s.Parked && !s.CheckAt.IsZero() {
		return s
	}
	s = s.Settled(now)
	s.Parked = true
	s.CheckAt = cmp.Or(s.CheckAt, s.parkedCheck(r, now))
	return s.kept(r, now)
}

// Missed makes a release due: a delivery was parked during the recovery, and the last release
// may not have seen it.
func (s State) Missed(r Rules, now time.Time) State {
	if s.Parked && (!s.Accepts(now) || (s.Phase == Recovering && !s.CheckAt.After(now.Add(r.RampEvery)))) {
		return s
	}
	s = s.Settled(now)
	s.Parked = true
	if s.Phase == Healthy {
		s.Phase, s.Since = Recovering, now
	}
	s.CheckAt = s.parkedCheck(r, now)
	return s.kept(r, now)
}

// parkedCheck is when the next step is due while the lot is not empty. In a pause, or with the
// budget spent, that is every CheckSlow, because parked deliveries become overdue.
func (s State) parkedCheck(r Rules, now time.Time) time.Time {
	if s.Phase != Paused && !s.checkedDaily(r) {
		return now
	}
	look := now.Add(r.CheckSlow)
	if !s.Until.IsZero() && s.Until.Before(look) {
		return s.Until
	}
	return look
}

// Hold says that an ordered group stays parked although the server accepts deliveries, because
// its head fails or waits for a slot. The head has its own due time; the lot is looked at every
// CheckSlow.
func (s State) Hold(r Rules, now time.Time) State {
	s = s.Settled(now)
	s.Parked = true
	s.CheckAt, s.Since = cmp.Or(s.CheckAt, now.Add(r.CheckSlow)), cmp.Or(s.Since, now)
	return s.kept(r, now)
}

// NextRelease returns how many parked deliveries to release, and the state to save before. The
// number is 0 if the server is not recovering.
func (s State) NextRelease(r Rules, now time.Time) (int, State) {
	t := s.Settled(now)
	if t.Phase == Healthy && t.Parked {
		t.Phase, t.Since = Recovering, now
	}
	if t.Phase != Recovering {
		return 0, s
	}
	if t.Ramp == 0 {
		t.Ramp = r.rampAfter(r.Ramp[0])
	}
	n := t.Ramp
	t.Ramp = r.rampAfter(n)
	switch limit := t.perStep(r, now); {
	case limit > 0 && t.RateLearnt:
		n = max(n, limit) // a learnt limit doubles, as the ramp grows
	case limit > 0:
		n = limit // an operator's limit needs no ramp
	}
	// Runs begin a minute apart, so the next may come a little less than RampEvery from now.
	t.CheckAt = now.Add(r.RampEvery - r.RampEvery/10)
	return n, t.kept(r, now)
}

// perStep is how many parked deliveries a step looks at if the server has a rate limit; 0: it
// has none. That is four times the limit, because a learnt limit grows. The limit itself
// decides how many are sent.
func (s State) perStep(r Rules, now time.Time) int {
	limit := s.Limited(now)
	if limit == 0 {
		return 0
	}
	return max(1, int(4*float64(limit)*r.RampEvery.Minutes()))
}

// Swept records the position of the sweep.
func (s State) Swept(r Rules, at Sweep, now time.Time) State {
	if s.Sweep == at {
		return s
	}
	s.Sweep = at
	return s.kept(r, now)
}

// Stuck says that a sweep has found only heads of ordered groups. Each group goes on by itself,
// so the lot is looked at at the intervals of checks, to see when it is empty.
func (s State) Stuck(r Rules, now time.Time) State {
	if s.Phase != Recovering {
		return s
	}
	s.Phase, s.Since, s.Sweep = Healthy, now, Sweep{}
	s.CheckAt = now.Add(r.wait(s.Checks+1, true))
	s.Checks++
	return s.kept(r, now)
}

// Drained says that the lot was seen empty. The caller saves this state, looks into the lot
// again, and saves Emptied or Missed. A step stays due, so that a later run makes the second
// look if the caller dies.
func (s State) Drained(r Rules, now time.Time) State {
	s.Parked, s.Sweep = false, Sweep{}
	switch s = s.Settled(now); {
	case s.Wasteful(r): // only an accepted delivery closes its circuit
	case s.Phase == Healthy, s.Phase == Recovering, s.Phase == HalfOpen:
		// The recent outcomes stay: they distinguish a broken inbox from a broken host.
		w, streak := s.Window, s.Streak
		s = s.reopened(now)
		s.Window, s.Streak = w, streak
	}
	if !s.checkedDaily(r) {
		s.CheckAt = now.Add(r.RampEvery)
	}
	return s.kept(r, now)
}

// Emptied says that the lot was empty at the second look, too. If a worker has parked
// meanwhile, it returns s.
func (s State) Emptied(r Rules, now time.Time) State {
	if s.Parked {
		return s
	}
	switch s = s.Settled(now); s.Phase {
	case Unhealthy, Exhausted:
		// Nothing is parked, so only the quick checks go on.
		s.CheckAt = time.Time{}
		if wait := s.untilCheck(r, false); wait > 0 {
			s.CheckAt = now.Add(wait)
		}
	case Gone:
		s.CheckAt = s.goneCheck(r, now)
	default:
		s.CheckAt = time.Time{}
		if s.Accepts(now) {
			s.ReviveUntil = time.Time{} // the second look found no dead letter
		}
	}
	return s.kept(r, now)
}
