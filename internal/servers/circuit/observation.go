package circuit

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"fedpost/internal/activity/outcome"
)

// Observation sums up attempts on one server. The zero value means that no attempt was
// made.
type Observation struct {
	Successes, Failures int
	// Accepted counts the deliveries that were accepted: a success may be a refusal.
	Accepted int
	// Trailing counts the failures since the last success.
	Trailing int
	// Inbox is the inbox that all failures came from. It is several if there is more than
	// one such inbox, or if a failure was the host's: DNS, refused connection or TLS.
	Inbox string
	// Took is the inbox that accepted a delivery last; empty if none is known.
	Took string
	// Vain counts the requests in vain since the last acceptance.
	Vain int
	// OfKeys counts further ones, which were trials of signing keys. They open a
	// circuit later (Rules.keysOpenAt), as deliveries with other keys may be accepted.
	OfKeys int
	// Slow has digests of inboxes that have asked for a pause, or could not verify a signing
	// key, since the last acceptance, as State.Slow has them.
	Slow string
	// Until is the latest time until which one of them asked for a pause.
	Until time.Time
	// Reason and Why of the last request that failed or was in vain.
	Reason outcome.Reason
	Why    string
	// KeyID is the signing key of a state that is for one key only.
	KeyID string
}

// several stands for more than one inbox.
const several = "*"

// Add returns o with the outcome of one more attempt, made on inbox after all attempts of
// o. An answer that accepts the activity, or refuses it for good, is a success of the host:
// see outcome.HostFault. An answer about the signing key, a 401, is neither a success nor a
// failure. Any answer but an acceptance may be in vain.
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

// InVain returns the observation, for the state of a host, of a trial whose outcome is for the
// state of one of its inboxes: only what the trial cost.
func InVain(out outcome.Outcome) Observation {
	o := Observation{Vain: out.Vain(), Reason: out.Reason, Why: out.Err}
	if out.Class == outcome.Unverified {
		o.Vain, o.OfKeys = 0, o.Vain
	}
	return o
}

// Plain reports whether o sums up successes only.
func (o Observation) Plain() bool { return o.Failures+o.Vain+o.OfKeys == 0 && o.Slow == "" }

// empty reports whether o sums up nothing that a state may count.
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

// ofHost reports whether a failure for this reason is the same at all inboxes of a host.
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
	if later.Why == "" {
		later.Reason, later.Why = o.Reason, o.Why
	}
	return later
}
