package circuit

import (
	"fedpost/internal/activity/outcome"
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
// after all of o. An answer that takes the activity, or refuses it for good, is a
// success of the host: see outcome.HostFault.
func (o Observation) Add(inbox string, out outcome.Outcome) Observation {
	switch {
	case out.Try != outcome.Made:
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
