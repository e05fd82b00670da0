package circuit

import (
	"strings"
	"time"

	"fedpost/internal/activity/outcome"
)

// Fault opens the circuit of a Healthy or Recovering server.
func (s State) Fault(r Rules, reason outcome.Reason, why string, now time.Time) State {
	switch s = s.Settled(now); s.Phase {
	case Healthy, Recovering:
	default:
		return s
	}
	s = s.reopened(now)
	s.Phase, s.Reason, s.Why, s.DownSince = Unhealthy, reason, clip(why), now
	s.Checks = s.Unproven
	// A delivery is parked next, so a daily check counts as due.
	s.CheckAt = now.Add(s.untilCheck(r, true))
	return s.kept(r, now)
}

// clip shortens and cleans a text that may quote a remote server.
func clip(why string) string { return outcome.Clean(why, 200) }

// If slowInboxes inboxes ask for a pause within slowWithin, while none accepts a delivery,
// their server is paused.
const (
	slowInboxes = 3
	slowWithin  = time.Minute
)

// slow reports whether the pauses of inboxes hold for their server: several asked, or the one
// that accepted a delivery last. A pause may be over when its answer is counted.
func (s State) slow(o Observation, now time.Time) bool {
	return o.Slow != "" && o.Until.After(now) && (s.Took != "" && strings.Contains(o.Slow, s.Took) || len(strings.Fields(s.Slow)) >= slowInboxes)
}

// slowed pauses a server after its inboxes asked for pauses. Theirs may be longer: three
// inboxes must not stop a whole server for half a day.
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
// Rules.MaxPause. It ends an outage, as the server is alive. Further pauses without an accepted
// delivery in between last at least Rules.Throttled, doubled each time, and a trial decides at
// the end of each. So an inbox that asks for ever costs 11 requests on the first day. An answer
// that makes the present pause longer by at most a second, or a tenth of its rest, changes
// nothing: a thousand answers cost one write.
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
	tried := s.Tried // so that inboxes whose trials failed are not first again
	s = s.reopened(now)
	s.Phase, s.Until, s.Why, s.CheckAt, s.Tried = Paused, until, clip(why), time.Time{}, tried
	if s.Parked {
		s.CheckAt = s.parkedCheck(r, now)
	}
	return s.kept(r, now)
}

// InboxFault records in a host's state that an inbox has a state of its own.
func (s State) InboxFault(r Rules, now time.Time) State {
	until := now.Add(r.GiveUp + 2*r.CheckSlow)
	// At most one write an hour, however many inboxes fail.
	if until.Sub(s.InboxesUntil) < time.Hour {
		return s
	}
	s = s.Settled(now)
	s.InboxesUntil = until
	return s.kept(r, now)
}

// LearnRate records a learnt rate limit, in deliveries per minute. An operator's limit stays.
func (s State) LearnRate(r Rules, perMinute int, until, now time.Time) State {
	if s.Rate > 0 && !s.RateLearnt || s.Rate == perMinute && s.RateUntil.Equal(until) {
		return s
	}
	s = s.Settled(now)
	s.Rate, s.RateLearnt, s.RateUntil = perMinute, true, until
	return s.kept(r, now)
}

// Limited returns the rate limit at now, in deliveries per minute; 0: none.
func (s State) Limited(now time.Time) int {
	if s.RateLearnt && !now.Before(s.RateUntil) {
		return 0
	}
	return s.Rate
}
