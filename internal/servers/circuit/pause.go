package circuit

import (
	"strings"
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
	s.CheckAt = now.Add(s.untilCheck(r, true))
	return s.kept(r, now)
}

// clip cuts a text to 200 bytes and cleans it, because it may quote a stranger's server.
func clip(why string) string { return outcome.Clean(why, 200) }

// slowInboxes inboxes of a server that asked for a pause within slowWithin, while none
// accepted a delivery, pause the server: it may limit all requests together.
const (
	slowInboxes = 3
	slowWithin  = time.Minute
)

// slow reports whether the pauses that inboxes asked for hold for their server: several did,
// or the one that accepted a delivery last. A pause may be over when its answer is noted.
func (s State) slow(o Observation, now time.Time) bool {
	return o.Slow != "" && o.Until.After(now) && (s.Took != "" && strings.Contains(o.Slow, s.Took) || len(strings.Fields(s.Slow)) >= slowInboxes)
}

// slowed pauses a server for a while, as some of its inboxes asked for pauses of their own,
// which may be longer: whoever controls three pages of a server would stop its users for half
// a day.
func (s State) slowed(r Rules, o Observation, now time.Time) State {
	slow, at, until := s.Slow, s.SlowAt, now.Add(r.throttled(s.Throttles+1))
	if o.Until.Before(until) {
		until = o.Until
	}
	s = s.Throttle(r, until, o.Why, now)
	s.Slow, s.SlowAt = slow, at
	return s
}

// Throttle pauses a server or an inbox until the time that it asked for, at most for
// Rules.MaxPause. Who asks for a pause is alive, so an outage ends. Who asks again, without
// having accepted a delivery since, is paused for at least Rules.Throttled, which doubles
// with each further pause. A trial decides at the end of each pause. So an inbox that asks
// for ever costs 11 requests on the first day, however short the pauses that it asks for. An
// answer changes nothing if it makes the present pause longer by a second
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
	case t.Phase == Gone, t.Phase == Blocked, t.Wasteful(r), !until.After(now):
		return s
	case t.Phase == Paused && (s.Until.IsZero() || until.Sub(s.Until) <= max(time.Second, s.Until.Sub(now)/10)):
		return s
	}
	s = s.pause(r, until, why, now)
	s.Throttles = throttles
	return s
}

func (s State) pause(r Rules, until time.Time, why string, now time.Time) State {
	tried := s.Tried // inboxes whose trials failed are not tried first again
	s = s.reopened(now)
	s.Phase, s.Until, s.Why, s.CheckAt, s.Tried = Paused, until, clip(why), time.Time{}, tried
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
