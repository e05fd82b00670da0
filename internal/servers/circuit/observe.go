package circuit

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

const longestKeyID = 300

// lastFault records, for operators, the last failure of a server that is still healthy.
func (s State) lastFault(o Observation) State {
	if len(o.KeyID) <= longestKeyID {
		s.KeyID = cmp.Or(o.KeyID, s.KeyID)
	}
	switch {
	case s.Phase != Healthy:
	case s.Streak == 0:
		s.Reason, s.Why = "", ""
	case o.Failures > 0:
		s.Reason, s.Why = o.Reason, clip(o.Why)
	}
	return s
}

// Observe returns the state after the attempts of o. If they change nothing, it returns s, so
// that a healthy server has no record and costs no write.
func (s State) Observe(r Rules, o Observation, now time.Time) State {
	if after := s.observed(r, o, now); after != s {
		return after.kept(r, now)
	}
	return s
}

func (s State) observed(r Rules, o Observation, now time.Time) State {
	if o.empty() {
		return s
	}
	switch t := s.Settled(now); t.Phase {
	case Healthy, Recovering:
		if !t.counts(o) {
			return s
		}
		t = t.count(r, o, now).lastFault(o)
		switch {
		case t.slow(o, now):
			return t.slowed(r, o, now)
		case t.unverified(o):
			refused := t.Slow
			t = t.Fault(r, o.Reason, o.Why, now)
			t.Tried, t.Lapsed = refused, strings.Contains(refused, t.Took) // so that other inboxes are tried first
			return t
		case !t.failing(r) && (o.Vain > 0 && t.Vain >= r.opensAt() || t.Vain >= r.keysOpenAt()):
			why := fmt.Sprintf("accepted none of %d requests; the last: %s", t.Vain, o.Why)
			return t.spared(r, s.Vain, now).Fault(r, o.Reason, why, now)
		case !t.failing(r):
			return t
		case t.Window.culprit():
			t.Streak, t.Window = 0, Window{}
			return t.InboxFault(r, now)
		}
		return t.spared(r, s.Vain, now).Fault(r, o.Reason, o.Why, now)
	case Paused:
		// An attempt that was under way when the pause began was accepted.
		if o.Accepted > 0 && s.Slow != "" {
			s.Throttles, s.Unproven, s.Vain = 0, 0, 0
			return s.reopened(now).took(o.Took)
		}
		if s = s.late(r, o, now); s.Throttles > 0 && s.Vain >= r.opensAt() {
			return s.reopened(now).Fault(r, o.Reason, o.Why, now)
		}
		if o.Successes > 0 {
			s.Throttles, s.Unproven = min(s.Throttles, 1), 0
		}
	case HalfOpen:
		t := s.late(r, o, now).lapsed(o)
		if t.spent(r) && !s.spent(r) {
			return t.failed(r, o.Reason, o.Why, now)
		}
		return t
	case Unhealthy, Exhausted:
		s = s.late(r, o, now).lapsed(o)
		// A success makes a check due and does not close the circuit: unless the server works,
		// its attempts were under way when the circuit opened.
		if o.Successes > 0 && !s.spent(r) {
			at := s.nextOfWorking(now)
			return s.took(o.Took).Sooner(r, at, now)
		}
	}
	return s
}

// AcceptsLately reports whether the host has accepted a delivery within Proof. Hundreds of
// attempts may be under way there, which do not count against its budget if its circuit opens.
// Another host has few, and all of them count.
func (s State) AcceptsLately(now time.Time) bool { return now.Sub(s.TookAt) < Proof }

// Proof is how long a host counts as accepting after a delivery that it accepted.
const Proof = time.Hour

// spared is s, if it accepts lately, with no more requests in vain counted than opened its
// circuit. The others were under way by then.
func (s State) spared(r Rules, before int, now time.Time) State {
	if s.AcceptsLately(now) {
		s.Vain = min(s.Vain, max(before+r.OpenAfter, r.opensAt()))
	}
	return s
}

// late counts the requests in vain of attempts that end while the circuit is open. Those at a
// server that works were not under way when it opened: they are sent although it is open.
func (s State) late(r Rules, o Observation, now time.Time) State {
	if o.Accepted > 0 {
		s.Vain = 0
	}
	if o.Plain() {
		return s
	}
	if s.TookAt = latest(s.TookAt, o.TookAt); s.AcceptsLately(now) && !s.Works() {
		return s
	}
	return s.spend(r, o.Vain+o.OfKeys, now)
}

// spend counts n requests in vain. Those that open a circuit are counted since the last
// acceptance, however long ago. The others are counted per day, which begins when the circuit
// opens. So any 24 hours have no more than a budget.
func (s State) spend(r Rules, n int, now time.Time) State {
	opens := r.opensAt()
	if n > 0 && s.Vain+n >= opens && (s.Vain < opens || now.Sub(s.VainSince) >= day) {
		s.Vain, s.VainSince = min(s.Vain, opens), now
	}
	s.Vain += n
	return s
}

// Wasteful reports whether the circuit of s is open and only an accepted delivery closes it,
// because so much of the budget is spent.
func (s State) Wasteful(r Rules) bool {
	return (s.Phase == HalfOpen || !s.DownSince.IsZero()) && s.Vain >= r.opensAt()
}

// OneByOne reports whether attempts at the server are made one at a time, because the budget
// has no room for as many as an unknown server gets at once.
func (s State) OneByOne(r Rules) bool { return s.Vain >= r.opensAt()/2 }

// BesideOthers reports whether attempts at inbox, one at a time, do not wait for those at others:
// inbox accepted a delivery last, and its acceptance would begin the budget anew.
func (s State) BesideOthers(r Rules, inbox string) bool { return s.TookLast(inbox) && !s.Wasteful(r) }

// spent reports whether the budget has no room for a trial, which is up to three requests.
func (s State) spent(r Rules) bool { return s.Vain > r.Budget-3 }

func (s State) spentToday(r Rules, now time.Time) bool {
	return s.spent(r) && now.Sub(s.VainSince) < day
}

// checkedDaily reports whether s is down with its budget spent.
func (s State) checkedDaily(r Rules) bool {
	return s.Phase != HalfOpen && !s.DownSince.IsZero() && s.spent(r)
}

func (s State) lapsed(o Observation) State {
	s.Lapsed = s.Lapsed || o.Failures > 0 && s.TookLast(o.Inbox) || s.ofSignedHost() && o.Slow != "" && strings.Contains(o.Slow, s.Took)
	return s
}

// Culprit returns the inbox whose circuit has to open instead of its host's, or "": the
// failures suffice to open a circuit, all of them are this inbox's, and the host has accepted
// others.
func (s State) Culprit(r Rules, o Observation, now time.Time) string {
	t := s.Settled(now)
	if t.Phase != Healthy && t.Phase != Recovering || !t.counts(o) {
		return ""
	}
	if t = t.count(r, o, now); !t.slow(o, now) && t.failing(r) && t.Window.culprit() {
		return o.Inbox
	}
	return ""
}

// counts reports whether an observation is worth a write. Successes are worth one only if they end
// a count: a write per batch would make other writes of a busy server's state fail with ErrChanged.
func (s State) counts(o Observation) bool {
	return !o.Plain() || s.Counting()
}

// Counting reports whether s has counts that an accepted delivery ends.
func (s State) Counting() bool {
	return s.Streak > 0 || s.Throttles > 0 || s.Unproven > 0 || s.Vain > 0 || s.Slow != ""
}

// Steady reports whether successes change nothing in s, now or later.
func (s State) Steady() bool {
	return (s.Phase == Healthy || s.Phase == "" || s.Phase == Recovering) && !s.counts(Observation{})
}

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
	s.TookAt = latest(s.TookAt, o.TookAt)
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
	if o.Accepted > 0 {
		s.Vain, s.VainSince = 0, time.Time{}
	}
	s = s.spend(r, o.Vain+o.OfKeys, now)
	if o.Accepted > 0 || now.Sub(s.SlowAt) > slowWithin && !s.ofSignedHost() {
		s.Slow, s.SlowAt = "", time.Time{}
	}
	if o.Slow != "" {
		s.SlowAt = cmp.Or(s.SlowAt, now)
		s.Slow = together(s.Slow, o.Slow, slowInboxes)
	}
	s.Since = cmp.Or(s.Since, now)
	return s
}

// failing reports whether the circuit has to open. One failure suffices for an inbox that has
// accepted nothing since its last outage.
func (s State) failing(r Rules) bool {
	return s.Streak >= r.OpenAfter || s.Streak > 0 && s.Unproven > 0 && s.ofInbox() ||
		(s.Window.Total >= r.OpenSample && float64(s.Window.Failures) >= r.OpenShare*float64(s.Window.Total))
}

// culprit reports whether all failures are one inbox's, and other inboxes accepted something.
func (w Window) culprit() bool { return w.Inbox != "" && w.Inbox != several && w.Total > w.Failures }

// inboxDigest replaces the URL of an inbox in a state, which can be long.
func inboxDigest(inbox string) string {
	sum := sha256.Sum256([]byte(inbox))
	return hex.EncodeToString(sum[:12])
}
