package health

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"fedpost/internal/outcome"
)

// Observation sums up attempts on one server. The zero value is none.
type Observation struct {
	Successes, Failures int
	// Trailing counts the failures since the last success.
	Trailing int
	// Inbox is the one that all failures came from; several if there are more, or
	// if one was of a kind that no inbox can be blamed for.
	Inbox string
	// Reason and Why of the last failure.
	Reason outcome.Reason
	Why    string
}

// several stands for more than one inbox.
const several = "*"

// Add returns o with the outcome of one more attempt, on an inbox, which came
// after all of o. Any answer below 500 is a success of the host, whatever it
// thinks of the activity.
func (o Observation) Add(inbox string, out outcome.Outcome) Observation {
	switch {
	case out.Unattempted:
	case out.HostFault():
		if out.Reason == outcome.DNS || out.Reason == outcome.ConnRefused || out.Reason == outcome.TLS {
			inbox = several
		}
		o.Inbox = joint(o.Inbox, inbox)
		o.Failures++
		o.Trailing++
		o.Reason, o.Why = out.Reason, out.Err
	default:
		o.Successes++
		o.Trailing = 0
	}
	return o
}

func joint(a, b string) string {
	switch {
	case a == "" || a == b:
		return b
	case b == "":
		return a
	}
	return several
}

// Then returns o followed by later.
func (o Observation) Then(later Observation) Observation {
	if later.Successes == 0 {
		later.Trailing += o.Trailing
	}
	later.Successes += o.Successes
	later.Failures += o.Failures
	later.Inbox = joint(o.Inbox, later.Inbox)
	if later.Why == "" {
		later.Reason, later.Why = o.Reason, o.Why
	}
	return later
}

// Observe returns the state after attempts were made, which is s itself if they
// change nothing: so a healthy server has no record and costs no write.
func (s State) Observe(r Rules, o Observation, now time.Time) State {
	if o.Successes+o.Failures == 0 {
		return s
	}
	switch t := s.Settled(now); t.Phase {
	case Healthy, Recovering:
		if !t.counts(r, o, now) {
			return s
		}
		t = t.count(r, o, now)
		switch {
		case !t.failing(r):
			return t.kept(r, now)
		case t.Window.culprit():
			t.Streak, t.Window = 0, Window{}
			return t.InboxFault(r, now).kept(r, now)
		}
		return t.Fault(r, o.Reason, o.Why, now)
	case Unhealthy, Exhausted:
		// Late answers to what was under way. A good one is a reason to look, not
		// to believe.
		if o.Successes > 0 && (s.CheckAt.IsZero() || s.CheckAt.After(now)) {
			s.CheckAt = now
			return s.kept(r, now)
		}
	}
	return s
}

// Culprit returns the inbox whose own fault it is if attempts fail so often that
// a circuit has to open, while others of its host succeed: then its circuit does
// and not the host's. It is empty otherwise.
func (s State) Culprit(r Rules, o Observation, now time.Time) string {
	t := s.Settled(now)
	if t.Phase != Healthy && t.Phase != Recovering || !t.counts(r, o, now) {
		return ""
	}
	if t = t.count(r, o, now); t.failing(r) && t.Window.culprit() {
		return o.Inbox
	}
	return ""
}

// counts reports whether an observation is worth a write.
func (s State) counts(r Rules, o Observation, now time.Time) bool {
	return o.Failures > 0 || s.Streak > 0 || s.Phase == Recovering || (s.Window.Failures > 0 && !s.stale(r, now))
}

// stale reports whether the window is over.
func (s State) stale(r Rules, now time.Time) bool {
	return s.Window.Start.IsZero() || now.Sub(s.Window.Start) >= r.Window
}

func (s State) count(r Rules, o Observation, now time.Time) State {
	if s.stale(r, now) {
		w := Window{Start: now}
		if s.Streak > 0 {
			w.Inbox = s.Window.Inbox
		}
		s.Window = w
	}
	s.Window.Total += o.Successes + o.Failures
	s.Window.Failures += o.Failures
	if o.Failures > 0 {
		inbox := o.Inbox
		if inbox != several {
			inbox = inboxDigest(inbox)
		}
		s.Window.Inbox = joint(s.Window.Inbox, inbox)
	}
	if o.Successes > 0 {
		s.Streak = 0
	}
	s.Streak += o.Trailing
	if s.Since.IsZero() {
		s.Since = now
	}
	return s
}

func (s State) failing(r Rules) bool {
	return s.Streak >= r.OpenAfter ||
		(s.Window.Total >= r.OpenSample && float64(s.Window.Failures) >= r.OpenShare*float64(s.Window.Total))
}

// culprit reports whether all failures are of one inbox of a host that has
// accepted something else meanwhile.
func (w Window) culprit() bool { return w.Inbox != "" && w.Inbox != several && w.Total > w.Failures }

// inboxDigest keeps the states of hosts with long inbox names small.
func inboxDigest(inbox string) string {
	sum := sha256.Sum256([]byte(inbox))
	return hex.EncodeToString(sum[:4])
}

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

// clip keeps a record from growing by what strangers make errors say.
func clip(why string) string {
	const most = 200
	if len(why) > most {
		return why[:most]
	}
	return why
}

// Throttle pauses the server until a time, because it asked for it: it is alive,
// whatever was thought of it before.
func (s State) Throttle(r Rules, until time.Time, why string, now time.Time) State {
	if latest := now.Add(r.MaxPause); until.After(latest) {
		until = latest
	}
	switch t := s.Settled(now); {
	case t.Phase == Gone, t.Phase == Blocked, !until.After(now):
		return s
	case t.Phase == Paused && (s.Until.IsZero() || !until.After(s.Until)):
		return s
	}
	return s.pause(r, until, why, now)
}

func (s State) pause(r Rules, until time.Time, why string, now time.Time) State {
	s = s.reopened(now)
	s.Phase, s.Until, s.Why, s.CheckAt = Paused, until, clip(why), time.Time{}
	if s.Parked {
		s.CheckAt = s.parkedCheck(r, now)
	}
	return s.kept(r, now)
}

// SaidGone records that the server says it is gone as a whole.
func (s State) SaidGone(r Rules, why string, now time.Time) State {
	if s.Phase == Blocked || s.Phase == Gone {
		return s
	}
	s = s.reopened(now)
	s.Phase, s.Until, s.Why, s.CheckAt = Gone, now.Add(r.GoneFor), clip(why), time.Time{}
	if s.Parked {
		s.CheckAt = now
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
