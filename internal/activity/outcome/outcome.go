// Package outcome is the small set of classes that every attempt to deliver ends in, whatever the protocol.
// Protocols translate answers and network faults into an Outcome; the engine decides on nothing else.
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
	// Refused: it will never be accepted.
	Refused Class = "refused"
	// Retry: it failed for now; the retry policy decides when it is tried again.
	Retry Class = "retry"
	// Doubtful: it was refused for a reason that may pass within minutes (400: Lemmy answers it while it
	// cannot fetch the actor). It is tried a few times more and is then Refused.
	Doubtful Class = "doubtful"
	// Unverified: the signature could not be verified (401), often because the host could not fetch the key
	// just now. It is tried like Retry, but says nothing about deliveries signed with other keys.
	Unverified Class = "unverified"
	// Throttled: the inbox asked for a pause until Outcome.RetryAfter. Package circuit decides whether the
	// pause holds for the whole host.
	Throttled Class = "throttled"
	// Gone: the whole server is gone (410 from a shared inbox).
	Gone Class = "gone"
)

// Outcome is how one attempt ended.
type Outcome struct {
	Class Class

	// Status is the HTTP status; 0: no answer came.
	Status int

	// Reason classifies a fault on the way; ReasonNone if an answer came.
	Reason Reason

	// Err says what went wrong, for records and logs; empty if delivered.
	Err string

	// Response is the beginning of the answer's body, at most MaxText bytes.
	Response string

	// RetryAfter is the earliest next try that the host asked for; zero: none.
	RetryAfter time.Time

	Try Try

	// Discard says that no record of the recipient is kept ("removed" in the Sipher protocol).
	Discard bool

	// Method is what the protocol calls the request, such as FEDERATE, for logs.
	Method string

	// Requests is how many requests the attempt made: with another signature form, or after a redirect,
	// it makes another; 0: one.
	Requests int

	// Form is the signature form of the last request, if the protocol has several.
	Form string

	// Note is a remark for the record, such as "acknowledgement lost".
	Note string

	Took time.Duration
}

// Try says what an attempt counts as.
type Try int

const (
	// Made: a request was made. It counts as an attempt and as one of the policy's tries.
	Made Try = iota
	// Unsent: no request was made, and it counts as one of the policy's tries.
	Unsent
	// Untried: no request was made, usually through a fault of ours. It counts as nothing.
	Untried
	// Waiting: nothing was tried; the delivery is due at RetryAfter.
	Waiting
)

// ErrTimeout is the cause of a context whose end counts against the host: the time for one attempt is up.
var ErrTimeout = errors.New("no answer in time")

// HostFault reports whether the outcome counts against the whole host, towards opening its circuit: network
// faults, 5xx, and answers that neither take nor refuse the activity (408, 425, a redirect to a login page).
func (o Outcome) HostFault() bool { return o.Class == Retry && o.Try == Made }

// Vain returns how many requests of the attempt were in vain: neither accepted nor the end of the
// delivery. The last request of an attempt that does not count was not made.
func (o Outcome) Vain() int {
	n := max(1, o.Requests)
	switch {
	case o.Class == Delivered:
		return 0
	case o.Try != Made, o.Class == Refused, o.Class == Gone:
		return n - 1
	}
	return n
}

// Reason classifies why no usable answer came.
type Reason string

// The reasons, as records and logs show them.
const (
	ReasonNone    Reason = ""
	Timeout       Reason = "timeout"
	DNS           Reason = "dns"
	ConnRefused   Reason = "refused"
	ConnReset     Reason = "reset"
	TLS           Reason = "tls"
	BlockedAddr   Reason = "blocked-address" // the address guard refused to dial
	BadRequest    Reason = "request"         // the request could not be made
	OtherTrouble  Reason = "other"
	InvalidAnswer Reason = "invalid-answer"
)
