package circuit

import "time"

// Block refuses all deliveries to the server until Unblock. Deliveries may be parked under the
// keys of inboxes and subdomains, so Block sets Parked where there may be any: the scheduled
// function then looks there.
func (s State) Block(r Rules, why string, now time.Time) State {
	s = s.reopened(now)
	if _, family := FamilyOf(s.Key); family || s.InboxesUntil.After(now) {
		s.Parked = true
	}
	s.Throttles, s.Unproven, s.ReviveUntil = 0, 0, time.Time{}
	s.Phase, s.Why, s.CheckAt = Blocked, clip(why), time.Time{}
	if s.Parked {
		s.CheckAt = now // the scheduled function fails the parked deliveries
	}
	return s.kept(r, now)
}

// Unblock undoes Block. Any other phase stays as it is.
func (s State) Unblock(r Rules, now time.Time) State {
	if s.Phase != Blocked {
		return s
	}
	return s.reopened(now).kept(r, now)
}

// Pause parks deliveries until a time, or until Resume if that is zero. Rules.MaxPause does not
// apply.
func (s State) Pause(r Rules, until time.Time, why string, now time.Time) State {
	if s.Phase == Blocked || (!until.IsZero() && !until.After(now)) {
		return s
	}
	look := s.CheckAt
	s.Throttles, s.Unproven = 0, 0
	s = s.pause(r, until, why, now)
	if s.Parked && !look.IsZero() && look.Before(s.CheckAt) {
		s.CheckAt = look // what waits becomes overdue, however often the server is paused again
	}
	return s
}

// Resume ends a pause, an outage or the phase Gone.
func (s State) Resume(r Rules, now time.Time) State {
	switch s.Phase {
	case Paused, Gone, Unhealthy, HalfOpen, Exhausted:
		s.Throttles, s.Unproven, s.Vain = 0, 0, 0
		return s.reopened(now).kept(r, now)
	}
	return s
}

// CheckNow makes the next step due now, if the server is down or has parked deliveries. Its
// trial is made although the budget is spent.
func (s State) CheckNow(r Rules, now time.Time) State {
	due := !s.CheckAt.IsZero() && !s.CheckAt.After(now)
	if !due && (s.Parked || s.Down()) {
		s.CheckAt, s.Vain = now, min(s.Vain, r.Budget-3)
		return s.kept(r, now)
	}
	return s
}

// LimitTo sets an operator's rate limit, in deliveries per minute; 0: none. Package ratelimit
// counts its use.
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
