package circuit

import "time"

// Decision is what a delivery to a server has to do.
type Decision int

// The decisions.
const (
	Send   Decision = iota // the delivery is sent
	Wait                   // the delivery is parked
	Refuse                 // the delivery fails for good
)

// Decision returns what a delivery has to do at now.
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

// Settled returns s as it is at now: Paused and Gone end at s.Until. If deliveries are parked,
// they are then released step by step, after a trial if the server had asked for the pause.
func (s State) Settled(now time.Time) State {
	switch s.Phase {
	case "":
		s.Phase = Healthy
	case Paused, Gone:
		if s.Until.IsZero() || now.Before(s.Until) {
			return s
		}
		if s.Phase == Paused && s.Throttles > 0 && s.Parked {
			return s.onTrial(now)
		}
		return s.reopened(now)
	}
	return s
}

// LooksAt is when the scheduled function looks at the server next; zero: never.
func (s State) LooksAt(now time.Time) time.Time {
	s = s.Settled(now)
	if s.CheckAt.IsZero() && s.Phase == Paused {
		return s.Until
	}
	return s.CheckAt
}

// onTrial is s after a pause, half-open.
func (s State) onTrial(now time.Time) State {
	why, tried := s.Why, s.Tried
	s = s.reopened(now)
	s.Phase, s.Why, s.Tried = HalfOpen, why, tried
	return s
}

// reopened is s with a closed circuit and no counts of failures, except the pauses in a row.
func (s State) reopened(now time.Time) State {
	s.Phase, s.Since, s.Until, s.Why, s.Reason = Healthy, now, time.Time{}, "", ""
	s.DownSince, s.Streak, s.Window, s.Checks = time.Time{}, 0, Window{}, 0
	s.Ramp, s.Sweep, s.CheckAt = 0, Sweep{}, time.Time{}
	s.Trials, s.Tried, s.Sole, s.Doubt = 0, "", false, false
	s.Slow, s.SlowAt = "", time.Time{}
	if s.Parked {
		s.Phase, s.CheckAt = Recovering, now
	}
	return s
}

// kept sets when the record expires: Rules.Unknown after the last change. It never does with an
// operator's setting, or with parked deliveries, which would not be found without it.
func (s State) kept(r Rules, now time.Time) State {
	if s.Parked || s.Phase == Blocked || (s.Phase == Paused && s.Until.IsZero()) || (s.Rate > 0 && !s.RateLearnt) {
		s.Forget = time.Time{}
		return s
	}
	until := now
	for _, t := range []time.Time{s.Until, s.FormUntil, s.Forms.lasts(), s.InboxesUntil, s.RateUntil, s.CheckAt} {
		until = latest(until, t)
	}
	s.Forget = until.Add(r.Unknown)
	return s
}
