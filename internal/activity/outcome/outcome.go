// Package outcome is the one set of classes that every attempt to deliver ends
// in, whatever the protocol. Protocols translate answers and network faults
// into an Outcome; the engine decides on nothing else.
//
// Keeping the set this small is what lets one engine drive protocols that
// disagree about almost everything, such as what a 404 means.
package outcome

import (
	"errors"
	"time"
)

// Class says what the engine has to do next.
type Class string

const (
	// Delivered: the recipient has it. Never sent again.
	Delivered Class = "delivered"
	// Refused: it will never be accepted; trying again is useless.
	Refused Class = "refused"
	// Retry: it failed for now; the retry policy decides when it is tried again.
	Retry Class = "retry"
	// Doubtful: it was refused, for a reason that may pass within minutes (400:
	// Lemmy answers it while it cannot fetch the actor). It is tried a few times
	// more and is then Refused.
	Doubtful Class = "doubtful"
	// Unverified: the signature could not be verified (401), often because the
	// host could not fetch the key just now. It is tried like Retry, but says
	// nothing about deliveries that are signed with other keys.
	Unverified Class = "unverified"
	// Throttled: the inbox asked for a pause until Outcome.RetryAfter. Package circuit
	// decides whether the pause holds for the whole host.
	Throttled Class = "throttled"
	// Gone: the whole server is gone (410 from a shared inbox).
	Gone Class = "gone"
)

// Outcome is how one attempt ended.
type Outcome struct {
	Class Class

	// Status is the HTTP status, 0 if no answer came.
	Status int

	// Reason classifies a fault on the way; ReasonNone if an answer came.
	Reason Reason

	// Err says in words what went wrong, for records and logs; empty if delivered.
	// The engine cuts and cleans Err, Response and Note once more (Cleaned).
	Err string

	// Response is the beginning of the answer's body, at most MaxText bytes.
	Response string

	// RetryAfter is the earliest time of a next try that the host asked for;
	// zero if it did not.
	RetryAfter time.Time

	// Try is what the attempt counts as.
	Try Try

	// Discard says that no record of the recipient needs to be kept (the
	// "removed" column of the Sipher protocol).
	Discard bool

	// Method is what the protocol calls the request, such as FEDERATE, for logs.
	Method string

	// Requests is how many requests the attempt made; 0: one. Each signature form that is
	// tried is a request.
	Requests int

	// Form is the signature form of the last request, if the protocol has several.
	Form string

	// Note is a remark for the record, such as "acknowledgement lost".
	Note string

	// Took is how long the attempt took.
	Took time.Duration
}

// Try says what an attempt counts as.
type Try int

const (
	// Made: a request was made. It counts as an attempt, and as one of the policy's
	// tries.
	Made Try = iota
	// Unsent: it failed before a request was made, and still is one of the policy's
	// tries.
	Unsent
	// Untried counts as nothing: no request was made, usually through a fault of
	// ours.
	Untried
	// Waiting: nothing was tried, because it is not the delivery's turn before
	// RetryAfter.
	Waiting
)

// ErrTimeout is the cause that a context ends with when the time for one attempt
// is up, which counts against the host; any other end of it is our own doing.
var ErrTimeout = errors.New("no answer in time")

// HostFault reports whether the outcome speaks against the host as a whole, and so
// counts towards opening its circuit: network faults, 5xx, and any other answer that
// neither takes the activity nor refuses it (408, 425, a redirect to a login page).
// A host that gives such answers to everything would otherwise be tried for ever.
func (o Outcome) HostFault() bool { return o.Class == Retry && o.Try == Made }

// Vain returns how many requests of the attempt the host neither accepted nor ended the
// delivery with: a delivery that is tried again costs such requests without end.
func (o Outcome) Vain() int {
	n := max(1, o.Requests)
	switch {
	case o.Try != Made, o.Class == Delivered:
		return 0
	case o.Class == Refused, o.Class == Gone:
		return n - 1
	}
	return n
}
