package circuit

import (
	"cmp"

	"fedpost/internal/activity/outcome"
)

// Observation sums up attempts on one server. The zero value means that no attempt was
// made.
type Observation struct {
	Successes, Failures int
	// Trailing counts the failures since the last success.
	Trailing int
	// Inbox is the inbox that all failures came from. It is several if there is more than
	// one such inbox, or if a failure was the host's: DNS, refused connection or TLS.
	Inbox string
	// Took is the inbox that accepted a delivery last; empty if none is known.
	Took string
	// Reason and Why of the last failure.
	Reason outcome.Reason
	Why    string
}

// several stands for more than one inbox.
const several = "*"

// Add returns o with the outcome of one more attempt, made on inbox after all attempts of
// o. An answer that accepts the activity, or refuses it for good, is a success of the host:
// see outcome.HostFault. An answer about the signing key, a 401, is neither a success nor a
// failure.
func (o Observation) Add(inbox string, out outcome.Outcome) Observation {
	switch {
	case out.Try != outcome.Made, out.Class == outcome.Unverified:
	case out.HostFault():
		if ofHost(out.Reason) {
			inbox = several
		}
		o.Inbox = joint(o.Inbox, inbox)
		o.Failures++
		o.Trailing++
		o.Reason, o.Why = out.Reason, out.Err
	default:
		o.Successes++
		o.Trailing = 0
		if out.Class == outcome.Delivered {
			o.Took = inbox
		}
	}
	return o
}

// Unverified returns the observation, for the state of an inbox and a signing key, of one
// attempt with the key that the inbox could not verify.
func Unverified(out outcome.Outcome) Observation {
	return Observation{Failures: 1, Trailing: 1, Inbox: several, Reason: out.Reason, Why: out.Err}
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
	later.Inbox = joint(o.Inbox, later.Inbox)
	later.Took = cmp.Or(later.Took, o.Took)
	if later.Why == "" {
		later.Reason, later.Why = o.Reason, o.Why
	}
	return later
}
