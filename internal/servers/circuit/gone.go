package circuit

import "time"

// SaidGone records that a shared inbox answered 410. Some servers do so for a single actor, so
// this only makes a probe due, at most one every Rules.GoneLook.
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

// ConfirmedGone records that a probe was answered with 410, too. The server is gone for
// Rules.GoneFor, and is probed every Rules.GoneLook.
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

// NotGone records that a probe was not answered with 410.
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

// goneCheck is when the next step of a server that is gone is due: now, if parked deliveries
// have to fail.
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
