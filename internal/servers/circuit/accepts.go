package circuit

import "time"

// Stance is what a delivery to a server has to do now.
type Decision int

// The stances.
const (
	Send   Decision = iota // go out
	Wait                   // be parked
	Refuse                 // fail for good
)

// Stance returns how the server is to be met at now.
func (s State) Decision(now time.Time) Decision {
	switch s.Settled(now).Phase {
	case Unhealthy, HalfOpen, Paused, Exhausted:
		return Wait
	case Gone, Blocked:
		return Refuse
	}
	return Send
}

// Accepts reports whether deliveries go out at now.
func (s State) Accepts(now time.Time) bool { return s.Decision(now) == Send }

// Trying reports whether a trial decides about the server at present.
func (s State) Trying() bool { return s.Phase == HalfOpen }

// Settled ends what ends by itself: pauses, and the belief that a server is
// gone. What is parked is then released step by step.
func (s State) Settled(now time.Time) State {
	switch s.Phase {
	case "":
		s.Phase = Healthy
	case Paused, Gone:
		if !s.Until.IsZero() && !now.Before(s.Until) {
			return s.reopened(now)
		}
	}
	return s
}

// reopened is s as it accepts deliveries again, with nothing known against it.
func (s State) reopened(now time.Time) State {
	s.Phase, s.Since, s.Until, s.Why, s.Reason = Healthy, now, time.Time{}, "", ""
	s.DownSince, s.Streak, s.Window, s.Checks = time.Time{}, 0, Window{}, 0
	s.Ramp, s.Sweep, s.CheckAt = 0, Sweep{}, time.Time{}
	s.Trials, s.Tried = 0, ""
	if s.Parked {
		s.Phase, s.CheckAt = Recovering, now
	}
	return s
}

// kept sets how long the record lives: for ever only what an operator said, the
// lot's lifetime while something is parked, and otherwise a while.
func (s State) kept(r Rules, now time.Time) State {
	if s.Phase == Blocked || (s.Phase == Paused && s.Until.IsZero()) || (s.Rate > 0 && !s.RateLearnt) {
		s.Forget = time.Time{}
		return s
	}
	until := now
	for _, t := range []time.Time{s.Until, s.FormUntil, s.InboxesUntil, s.RateUntil, s.CheckAt} {
		if t.After(until) {
			until = t
		}
	}
	s.Forget = until.Add(r.Unknown)
	if s.Parked {
		// The lot must not outlive its only record, whatever stops the
		// scheduled function meanwhile.
		s.Forget = until.Add(r.GiveUp + 2*r.CheckSlow)
	}
	return s
}
