package circuit

import "time"

// SaidGone records that a shared inbox has answered 410. Some servers answer 410 for a
// single actor, so the server is not gone yet: SaidGone only makes a probe due, at most one
// every Rules.GoneLook.
func (s State) SaidGone(r Rules, why string, now time.Time) State {
	t := s.Settled(now)
	if t.Phase != Healthy && t.Phase != Recovering || now.Sub(t.DoubtAt) < r.GoneLook {
		return s
	}
	if t.Since.IsZero() {
		t.Since = now
	}
	t.Doubt, t.DoubtAt, t.Why, t.CheckAt = true, now, clip(why), now
	return t.kept(r, now)
}

// ConfirmedGone records that the server has answered a probe with 410, too. It is gone for
// Rules.GoneFor, and is probed every Rules.GoneLook in that time.
func (s State) ConfirmedGone(r Rules, why string, now time.Time) State {
	if s.Phase == Blocked {
		return s
	}
	since := s.Since
	again := s.Phase == Gone
	until := s.Until
	s = s.reopened(now)
	s.Phase, s.Until, s.Why = Gone, now.Add(r.GoneFor), clip(why)
	if again {
		s.Since, s.Until = since, until
	}
	s.CheckAt = s.goneCheck(r, now)
	return s.kept(r, now)
}

// NotGone records that the server has answered a probe with another status than 410.
func (s State) NotGone(r Rules, now time.Time) State {
	switch t := s.Settled(now); {
	case t.Phase == Gone:
		return t.reopened(now).kept(r, now)
	case t.Doubt:
		t.Doubt, t.Why, t.CheckAt = false, "", time.Time{}
		if t.Parked {
			t.CheckAt = now
		}
		return t.kept(r, now)
	}
	return s
}

// goneCheck is when the next step is due for a server that is gone. While deliveries are
// parked for the server, the step is due at once, so that these deliveries fail.
func (s State) goneCheck(r Rules, now time.Time) time.Time {
	next := now.Add(r.GoneLook)
	switch {
	case s.Parked:
		return now
	case s.Until.Before(next):
		return s.Until
	}
	return next
}
