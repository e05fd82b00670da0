package circuit

import (
	"time"

	"fedpost/internal/activity/outcome"
)

// Fault opens the circuit at once.
func (s State) Fault(r Rules, reason outcome.Reason, why string, now time.Time) State {
	switch s = s.Settled(now); s.Phase {
	case Healthy, Recovering:
	default:
		return s
	}
	s = s.reopened(now)
	s.Phase, s.Reason, s.Why, s.DownSince = Unhealthy, reason, clip(why), now
	s.CheckAt = now.Add(r.wait(0, s.Parked))
	return s.kept(r, now)
}

// clip bounds what a stranger's words add to the record of its server.
func clip(why string) string { return outcome.Clean(why, 200) }

// Throttle pauses the server until a time that it asked for. A server that asks is alive,
// so an outage ends. A server that asks again without having accepted anything since is
// paused for at least Rules.Throttled, twice as long each time, with one trial at the end;
// so it costs some 30 requests a day, however short the pauses it asks for. An answer that
// prolongs the present pause by little changes nothing, so a thousand answers cost one
// write.
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

// InboxFault notes in a host's state that an inbox of it has one of its own,
// which may live for as long as deliveries do.
func (s State) InboxFault(r Rules, now time.Time) State {
	until := now.Add(r.GiveUp + 2*r.CheckSlow)
	// Written at most once an hour, however many inboxes fail.
	if until.Sub(s.InboxesUntil) < time.Hour {
		return s
	}
	s = s.Settled(now)
	s.InboxesUntil = until
	return s.kept(r, now)
}

// LearnRate notes the rate that was learnt from the server's own answers, which
// holds until a time. What an operator set stays.
func (s State) LearnRate(r Rules, perMinute int, until, now time.Time) State {
	if s.Rate > 0 && !s.RateLearnt || s.Rate == perMinute && s.RateUntil.Equal(until) {
		return s
	}
	s = s.Settled(now)
	s.Rate, s.RateLearnt, s.RateUntil = perMinute, true, until
	return s.kept(r, now)
}

// Limited returns the deliveries per minute that the server takes at now; 0 if it
// has no limit.
func (s State) Limited(now time.Time) int {
	if s.RateLearnt && !now.Before(s.RateUntil) {
		return 0
	}
	return s.Rate
}
