package circuit

import "time"

// Decision is what a delivery to a server has to do now.
type Decision int

// The decisions.
const (
	Send   Decision = iota // go out
	Wait                   // be parked
	Refuse                 // fail for good
)

// Decision returns what a delivery to the server has to do at now.
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

// Trying reports whether a trial decides about the server at now.
func (s State) Trying(now time.Time) bool { return s.Settled(now).Phase == HalfOpen }

// Settled ends what ends by itself: pauses, and the belief that a server is
// gone. What is parked is then released step by step; after several pauses in a
// row that began with one trial.
func (s State) Settled(now time.Time) State {
	switch s.Phase {
	case "":
		s.Phase = Healthy
	case Paused, Gone:
		if s.Until.IsZero() || now.Before(s.Until) {
			return s
		}
		if s.Throttles > 1 {
			return s.onTrial(now)
		}
		return s.reopened(now)
	}
	return s
}

// LooksAt is when somebody looks at the server next: for a check, a release or the
// end of a pause; zero if nobody does.
func (s State) LooksAt(now time.Time) time.Time {
	s = s.Settled(now)
	if s.CheckAt.IsZero() && s.Phase == Paused {
		return s.Until
	}
	return s.CheckAt
}

// onTrial is s after one pause too many: a single delivery decides how it goes on.
func (s State) onTrial(now time.Time) State {
	why := s.Why
	s = s.reopened(now)
	s.Phase, s.Why = HalfOpen, why
	return s
}

// reopened is s as it accepts deliveries again, with nothing known against it but
// the pauses it asked for.
func (s State) reopened(now time.Time) State {
	s.Phase, s.Since, s.Until, s.Why, s.Reason = Healthy, now, time.Time{}, "", ""
	s.DownSince, s.Streak, s.Window, s.Checks = time.Time{}, 0, Window{}, 0
	s.Ramp, s.Sweep, s.CheckAt = 0, Sweep{}, time.Time{}
	s.Trials, s.Tried, s.Doubt = 0, "", false
	if s.Parked {
		s.Phase, s.CheckAt = Recovering, now
	}
	return s
}

// kept sets how long the record lives. What an operator said lives for ever, and
// so does the record of a server for which something is parked: it is the only
// thing that leads the scheduled function to the lot, which empties the lot in
// the end and so lets the record go. Every other record lives for a while.
func (s State) kept(r Rules, now time.Time) State {
	if s.Parked || s.Phase == Blocked || (s.Phase == Paused && s.Until.IsZero()) || (s.Rate > 0 && !s.RateLearnt) {
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
	return s
}
