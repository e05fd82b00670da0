package circuit

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"fedpost/internal/activity/outcome"
)

// Observation sums up attempts at one server; the zero value: none.
type Observation struct {
	Successes, Failures int
	// Accepted counts accepted deliveries: a success may be a refusal.
	Accepted int
	Trailing int
	// Inbox is the inbox of all failures; several if there is more than one, or if a failure is
	// the host's: DNS, refused connection or TLS.
	Inbox string
	// Took is the inbox that accepted a delivery last, and TookAt when; zero: not known.
	Took   string
	TookAt time.Time
	Vain   int
	// OfKeys counts further requests in vain: those of trials of signing keys. They open a circuit
	// later (Rules.keysOpenAt), as deliveries with other keys may be accepted.
	OfKeys int
	// Slow is like State.Slow, since the last acceptance.
	Slow string
	// Until is the end of the longest pause that was asked for.
	Until time.Time
	// Reason and Why are those of the last failure, or request in vain.
	Reason outcome.Reason
	Why    string
	// KeyID is set for the state of one signing key only.
	KeyID string
}

const several = "*"

// Add returns o with the outcome of one more attempt, at inbox. An answer that accepts or
// refuses the activity is a success of the host: see outcome.HostFault. A 401 is about the
// signing key, and neither a success nor a failure. Any answer but an acceptance may be in
// vain.
func (o Observation) Add(inbox string, out outcome.Outcome) Observation {
	if n := out.Vain(); n > 0 {
		o.Vain += n
		o.Reason, o.Why = out.Reason, out.Err
	}
	switch {
	case out.Try != outcome.Made, out.Class == outcome.Unverified:
	case out.Class == outcome.Throttled:
		o.Slow = together(o.Slow, inboxDigest(inbox), slowInboxes)
		o.Until = latest(o.Until, out.RetryAfter)
	case out.HostFault():
		if ofHost(out.Reason) {
			inbox = several
		}
		o.Inbox = joint(o.Inbox, inbox)
		o.Failures++
		o.Trailing++
	default:
		o.Successes++
		o.Trailing = 0
		if out.Class == outcome.Delivered {
			o.Took, o.Vain, o.OfKeys, o.Slow, o.Until = inbox, 0, 0, "", time.Time{}
			o.Accepted++
		}
	}
	return o
}

// InVain returns the observation for a host's state of a trial that counts for an inbox's state:
// only its requests in vain.
func InVain(out outcome.Outcome) Observation {
	o := Observation{Vain: out.Vain(), Reason: out.Reason, Why: out.Err}
	if out.Class == outcome.Unverified {
		o.Vain, o.OfKeys = 0, o.Vain
	}
	return o
}

// Plain reports whether o has successes only.
func (o Observation) Plain() bool { return o.Failures+o.Vain+o.OfKeys == 0 && o.Slow == "" }

func (o Observation) empty() bool { return o.Successes+o.Failures == 0 && o.Plain() }

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// together returns the digests of a followed by those of b, each once: the last ones, up to
// most.
func together(a, b string, most int) string {
	later := strings.Fields(b)
	all := append(slices.DeleteFunc(strings.Fields(a), func(d string) bool { return slices.Contains(later, d) }), later...)
	return strings.Join(all[max(0, len(all)-most):], " ")
}

func ofHost(r outcome.Reason) bool {
	return r == outcome.DNS || r == outcome.ConnRefused || r == outcome.TLS
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
	if later.Accepted == 0 {
		later.Vain += o.Vain
		later.OfKeys += o.OfKeys
		later.Slow, later.Until = together(o.Slow, later.Slow, slowInboxes), latest(o.Until, later.Until)
	}
	later.Accepted += o.Accepted
	later.Inbox = joint(o.Inbox, later.Inbox)
	later.Took, later.KeyID = cmp.Or(later.Took, o.Took), cmp.Or(later.KeyID, o.KeyID)
	later.TookAt = latest(o.TookAt, later.TookAt)
	if later.Why == "" {
		later.Reason, later.Why = o.Reason, o.Why
	}
	return later
}
