package circuit

import "time"

// Block refuses all deliveries to the server until Unblock. Deliveries that are parked for
// its inboxes, or for subdomains, are under other keys, so the scheduled function always
// looks for those once.
func (s State) Block(r Rules, why string, now time.Time) State {
	s = s.reopened(now)
	if _, family := FamilyOf(s.Key); family || s.InboxesUntil.After(now) {
		s.Parked = true
	}
	s.Throttles = 0
	s.Phase, s.Why, s.CheckAt = Blocked, clip(why), time.Time{}
	if s.Parked {
		s.CheckAt = now // what is parked fails
	}
	return s.kept(r, now)
}

// Unblock undoes Block, and nothing else.
func (s State) Unblock(r Rules, now time.Time) State {
	if s.Phase != Blocked {
		return s
	}
	return s.reopened(now).kept(r, now)
}

// Pause holds deliveries back until a time, or until Resume if it is zero. It
// is an operator's, so no cap applies.
func (s State) Pause(r Rules, until time.Time, why string, now time.Time) State {
	if s.Phase == Blocked || (!until.IsZero() && !until.After(now)) {
		return s
	}
	s.Throttles = 0
	return s.pause(r, until, why, now)
}

// Resume ends a pause, an outage or the phase Gone, at an operator's word.
func (s State) Resume(r Rules, now time.Time) State {
	switch s.Phase {
	case Paused, Gone, Unhealthy, HalfOpen, Exhausted:
		s.Throttles = 0
		return s.reopened(now).kept(r, now)
	}
	return s
}

// CheckNow makes the next step due now, if there is one to make. Asking again
// before that is done changes nothing.
func (s State) CheckNow(r Rules, now time.Time) State {
	due := !s.CheckAt.IsZero() && !s.CheckAt.After(now)
	if !due && (s.Parked || s.Phase == Unhealthy || s.Phase == Exhausted) {
		s.CheckAt = now
		return s.kept(r, now)
	}
	return s
}

// LimitTo says that deliveries to the server are limited to a rate a minute by an
// operator; 0 ends that. How much of the rate is used is kept elsewhere, see
// package ratelimit: this is what tells workers to ask there.
func (s State) LimitTo(r Rules, perMinute int, now time.Time) State {
	if s.Rate == perMinute && !s.RateLearnt {
		return s
	}
	if s.Since.IsZero() {
		s.Phase, s.Since = Healthy, now
	}
	s.Rate, s.RateLearnt, s.RateUntil = perMinute, false, time.Time{}
	return s.kept(r, now)
}
