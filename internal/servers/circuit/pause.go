package circuit

import (
	"time"

	"fedpost/internal/activity/outcome"
)

// Fault opens the circuit at once. It changes a Healthy or Recovering server only.
func (s State) Fault(r Rules, reason outcome.Reason, why string, now time.Time) State {
	switch s = s.Settled(now); s.Phase {
	case Healthy, Recovering:
	default:
		return s
	}
	s = s.reopened(now)
	s.Phase, s.Reason, s.Why, s.DownSince = Unhealthy, reason, clip(why), now
	s.Checks = s.Unproven
	// A delivery is parked next, so the slow checks are due as well.
	s.CheckAt = now.Add(r.wait(s.Checks, true))
	return s.kept(r, now)
}

// clip cuts a text to 200 bytes and cleans it, because it may quote a stranger's server.
func clip(why string) string { return outcome.Clean(why, 200) }

// Throttle pauses the server until the time that the server asked for, at most for
// Rules.MaxPause. A server that asks for a pause is alive, so an outage ends. A server that
// asks again, without having accepted a delivery since, is paused for at least
// Rules.Throttled, which doubles with each further pause, and a trial decides at the end of
// each pause. So such a server costs about 30 requests a day, however short the pauses that
// it asks for. An answer changes nothing if it makes the present pause longer by a second
// at most, or by a tenth of the time left at most, so a thousand answers cost one write.
func (s State) Throttle(r Rules, until time.Time, why string, now time.Time) State {
	t := s.Settled(now)
	throttles := t.Throttles
	if t.Phase != Paused {
		throttles++
	}
	if least := now.Add(r.throttled(throttles)); throttles > 1 && until.Before(least) && t.Phase != Paused {
		until = least
	}
	if latest := now.Add(r.MaxPause); until.After(latest) {
		until = latest
	}
	switch {
	case t.Phase == Gone, t.Phase == Blocked, !until.After(now):
		return s
	case t.Phase == Paused && (s.Until.IsZero() || until.Sub(s.Until) <= max(time.Second, s.Until.Sub(now)/10)):
		return s
	}
	s = s.pause(r, until, why, now)
	s.Throttles = throttles
	return s
}

func (s State) pause(r Rules, until time.Time, why string, now time.Time) State {
	s = s.reopened(now)
	s.Phase, s.Until, s.Why, s.CheckAt = Paused, until, clip(why), time.Time{}
	if s.Parked {
		s.CheckAt = s.parkedCheck(r, now)
	}
	return s.kept(r, now)
}

// InboxFault records in a host's state that an inbox of the host has a state of its own.
// The note outlasts the give-up time, because the inbox's state may.
func (s State) InboxFault(r Rules, now time.Time) State {
	until := now.Add(r.GiveUp + 2*r.CheckSlow)
	// The note is written at most once an hour, however many inboxes fail.
	if until.Sub(s.InboxesUntil) < time.Hour {
		return s
	}
	s = s.Settled(now)
	s.InboxesUntil = until
	return s.kept(r, now)
}

// LearnRate records a rate limit, in deliveries per minute, that was learnt from the
// server's answers and holds until the time given. A limit that an operator has set stays.
func (s State) LearnRate(r Rules, perMinute int, until, now time.Time) State {
	if s.Rate > 0 && !s.RateLearnt || s.Rate == perMinute && s.RateUntil.Equal(until) {
		return s
	}
	s = s.Settled(now)
	s.Rate, s.RateLearnt, s.RateUntil = perMinute, true, until
	return s.kept(r, now)
}

// Limited returns the server's rate limit at now, in deliveries per minute; 0: no limit.
func (s State) Limited(now time.Time) int {
	if s.RateLearnt && !now.Before(s.RateUntil) {
		return 0
	}
	return s.Rate
}
