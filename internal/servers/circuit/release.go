package circuit

import "time"

// Park says that a delivery is about to be parked for the server. Park sets Parked and
// schedules a step; if both are set already, Park returns s itself.
func (s State) Park(r Rules, now time.Time) State {
	if s.Parked && !s.CheckAt.IsZero() {
		return s
	}
	s = s.Settled(now)
	s.Parked = true
	if s.CheckAt.IsZero() {
		s.CheckAt = s.parkedCheck(r, now)
	}
	return s.kept(r, now)
}

// Missed says that a delivery was parked while the server was recovering. The last release
// may not have seen that delivery, so another release is due now.
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

// parkedCheck is when the next step is due for a server whose lot is not empty. A paused
// server has one every CheckSlow, because parked deliveries become overdue during a pause, and
// so has one that is down and has spent its budget.
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

// Hold says that an ordered group stays parked under a server that accepts other
// deliveries, because the group's head does not get through or waits for its slot. The head
// has a due time of its own; a look at the lot is due every CheckSlow.
func (s State) Hold(r Rules, now time.Time) State {
	s = s.Settled(now)
	s.Parked = true
	if s.CheckAt.IsZero() {
		s.CheckAt = now.Add(r.CheckSlow)
	}
	if s.Since.IsZero() {
		s.Since = now
	}
	return s.kept(r, now)
}

// NextRelease returns how many parked deliveries may be released now, and the state to
// save before the release. The number is 0 if the server is not recovering.
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
		n = max(n, limit) // it doubles, as the ramp grows
	case limit > 0:
		n = limit // it is a pace, and needs no ramp
	}
	// The next run comes a minute after this one began, which is less than a minute from now.
	t.CheckAt = now.Add(r.RampEvery - r.RampEvery/10)
	return n, t.kept(r, now)
}

// perStep is how many parked deliveries one step looks at for a server with a rate limit;
// 0: the server has no limit. That is four times what the limit allows in the time of a
// step, because a learnt limit grows. The rate limit decides how many of them are sent.
func (s State) perStep(r Rules, now time.Time) int {
	limit := s.Limited(now)
	if limit == 0 {
		return 0
	}
	return max(1, int(4*float64(limit)*r.RampEvery.Minutes()))
}

// Swept records how far the sweep through the lot has come.
func (s State) Swept(r Rules, at Sweep, now time.Time) State {
	if s.Sweep == at {
		return s
	}
	s.Sweep = at
	return s.kept(r, now)
}

// Stuck says that a whole sweep has found only heads of ordered groups, which keep their
// spots until they are final. Each group goes on by itself after its head, so the lot is
// only looked at again at the intervals of checks, to see when it is empty.
func (s State) Stuck(r Rules, now time.Time) State {
	if s.Phase != Recovering {
		return s
	}
	s.Phase, s.Since, s.Sweep = Healthy, now, Sweep{}
	s.CheckAt = now.Add(r.wait(s.Checks+1, true))
	s.Checks++
	return s.kept(r, now)
}

// Drained says that the lot was seen empty. The next worker that parks sets Parked again.
// The caller saves this state, looks into the lot once more, and then saves Emptied or
// Missed. A step stays due until then, so that a later run makes the second look if the
// caller dies.
func (s State) Drained(r Rules, now time.Time) State {
	s.Parked, s.Sweep = false, Sweep{}
	switch s = s.Settled(now); {
	case s.Phase == HalfOpen && s.Wasteful(r):
		s = s.failed(r, s.Reason, s.Why, now)
	case s.Phase == Healthy, s.Phase == Recovering, s.Phase == HalfOpen:
		// The recent outcomes are kept: they tell a broken inbox from a broken host.
		w, streak := s.Window, s.Streak
		s = s.reopened(now)
		s.Window, s.Streak = w, streak
	}
	if !s.checkedDaily(r) {
		s.CheckAt = now.Add(r.RampEvery)
	}
	return s.kept(r, now)
}

// Emptied says that the lot was empty at the second look, too, which follows the save of
// Drained. If a worker has parked a delivery since, Emptied returns s itself.
func (s State) Emptied(r Rules, now time.Time) State {
	if s.Parked {
		return s
	}
	switch s = s.Settled(now); s.Phase {
	case Unhealthy, Exhausted:
		// Nothing is parked, so the daily checks end. The first few checks go on.
		s.CheckAt = time.Time{}
		if wait := s.untilCheck(r, false); wait > 0 {
			s.CheckAt = now.Add(wait)
		}
	case Gone:
		s.CheckAt = s.goneCheck(r, now)
	default:
		s.CheckAt = time.Time{}
		if s.Accepts(now) {
			s.ReviveUntil = time.Time{} // the second look has found no dead letter, either
		}
	}
	return s.kept(r, now)
}
