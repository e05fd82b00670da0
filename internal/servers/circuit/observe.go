package circuit

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Observe returns the state after the attempts that o sums up. If they change nothing,
// Observe returns s itself, so that a healthy server has no record and costs no write.
func (s State) Observe(r Rules, o Observation, now time.Time) State {
	if o.Successes+o.Failures == 0 {
		return s
	}
	switch t := s.Settled(now); t.Phase {
	case Healthy, Recovering:
		if !t.counts(o) {
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
	case Paused:
		// An attempt that was under way when the pause began has succeeded, so the
		// server accepts deliveries.
		if o.Successes > 0 && (s.Throttles > 0 || s.Unproven > 0) {
			s.Throttles, s.Unproven = 0, 0
			return s.kept(r, now)
		}
	case HalfOpen:
		return s.lapsed(r, o, now)
	case Unhealthy, Exhausted:
		s = s.lapsed(r, o, now)
		// A success makes a check due, and does not close the circuit. The attempts were
		// under way when the circuit opened, unless the server works.
		if o.Successes > 0 {
			at := s.nextOfWorking(now)
			return s.took(o.Took).Sooner(r, at, now)
		}
	}
	return s
}

// lapsed notes that the inbox that accepted a delivery last has failed one.
func (s State) lapsed(r Rules, o Observation, now time.Time) State {
	if o.Failures > 0 && s.TookLast(o.Inbox) && !s.Lapsed {
		s.Lapsed = true
		s = s.kept(r, now)
	}
	return s
}

// Culprit returns the inbox whose circuit has to open, or "". An inbox is the culprit if
// the failures suffice to open a circuit, all of them come from this inbox, and other
// attempts on the same host succeed. The circuit of the host then stays closed.
func (s State) Culprit(r Rules, o Observation, now time.Time) string {
	t := s.Settled(now)
	if t.Phase != Healthy && t.Phase != Recovering || !t.counts(o) {
		return ""
	}
	if t = t.count(r, o, now); t.failing(r) && t.Window.culprit() {
		return o.Inbox
	}
	return ""
}

// counts reports whether an observation is worth a write. Successes alone are not, unless
// they end a streak of failures or pauses, or are the first since an outage that ended
// without one: with a write for every batch, workers that want to change the record of a
// busy server would keep failing with ErrChanged.
func (s State) counts(o Observation) bool {
	return o.Failures > 0 || s.Streak > 0 || s.Throttles > 0 || s.Unproven > 0
}

// Steady reports whether successes alone change nothing in s, now or later.
func (s State) Steady() bool {
	return (s.Phase == Healthy || s.Phase == "" || s.Phase == Recovering) && !s.counts(Observation{})
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
	s = s.took(o.Took)
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
		s.Streak, s.Throttles, s.Unproven = 0, 0, 0
	}
	s.Streak += o.Trailing
	if s.Since.IsZero() {
		s.Since = now
	}
	return s
}

// failing reports whether the circuit has to open. One failure suffices for an inbox that
// has accepted nothing since its last outage.
func (s State) failing(r Rules) bool {
	return s.Streak >= r.OpenAfter || s.Streak > 0 && s.Unproven > 0 && s.ofInbox() ||
		(s.Window.Total >= r.OpenSample && float64(s.Window.Failures) >= r.OpenShare*float64(s.Window.Total))
}

// culprit reports whether all failures are of one inbox of a host that has
// accepted something else meanwhile.
func (w Window) culprit() bool { return w.Inbox != "" && w.Inbox != several && w.Total > w.Failures }

// inboxDigest stands for an inbox in a state, because the URL of an inbox can be long.
func inboxDigest(inbox string) string {
	sum := sha256.Sum256([]byte(inbox))
	return hex.EncodeToString(sum[:12]) // of which nobody finds two inboxes with the same
}
