package circuit

import "time"

// Moved returns what another installation can use of s: an operator's settings, and what was
// learnt. Deliveries do not move. ok is false if nothing is left.
func (s State) Moved(now time.Time) (moved State, ok bool) {
	s = s.Settled(now)
	at := s.CheckAt
	switch s.Phase {
	case HalfOpen: // its trial does not move: a probe decides
		s.Phase, at = Unhealthy, now
		if s.DownSince.IsZero() {
			s.DownSince = s.Since
		}
	case Recovering:
		s.Phase, at = Healthy, time.Time{}
	case Healthy, Paused, Blocked:
		at = time.Time{}
	}
	if s.RateLearnt && !now.Before(s.RateUntil) {
		s.Rate, s.RateLearnt, s.RateUntil = 0, false, time.Time{}
	}
	if !now.Before(s.FormUntil) {
		s.Form, s.FormUntil = "", time.Time{}
	}
	if !now.Before(s.InboxesUntil) {
		s.InboxesUntil = time.Time{}
	}
	moved = State{
		Key: s.Key, Phase: s.Phase, Since: s.Since, Until: s.Until, Why: s.Why, Reason: s.Reason,
		LastEvent: s.LastEvent, Throttles: s.Throttles, Unproven: s.Unproven, DoubtAt: s.DoubtAt, DownSince: s.DownSince,
		Streak: s.Streak, Checks: s.Checks, CheckAt: at, InboxesUntil: s.InboxesUntil,
		Form: s.Form, FormUntil: s.FormUntil, MaybeForm: s.MaybeForm, MaybeFormBy: s.MaybeFormBy, MaybeFormAt: s.MaybeFormAt,
		Forms: formsOf(s.Forms.list(now)),
		Rate:  s.Rate, RateLearnt: s.RateLearnt, RateUntil: s.RateUntil,
	}
	if s.Phase == Healthy {
		moved.LastEvent, moved.Streak = "", 0
	}
	ok = moved.Phase != Healthy || moved.Form != "" || moved.MaybeForm != "" || moved.Forms != "" || moved.Rate > 0 || moved.Unproven > 0 || !moved.InboxesUntil.IsZero()
	return moved, ok
}

// Taken is s from another installation as the first record of the server here.
func (s State) Taken(r Rules, now time.Time) State {
	s = s.Settled(now)
	s.Version = ""
	if !s.CheckAt.IsZero() && s.CheckAt.Before(now) {
		s.CheckAt = now
	}
	return s.kept(r, now)
}

// PausedByOperator reports whether an operator has paused the server.
func (s State) PausedByOperator() bool { return s.Phase == Paused && s.Throttles == 0 }
