// Package retry decides when a failed delivery is tried again, and when it is
// given up.
//
// A policy is data, not code: a few quick tries on the queue with growing
// waits, and then either the parking lot for days (ActivityPub, where servers
// go away for a week-end and come back) or the end (Sipher, LDP). That keeps
// the engine free of special cases and lets an operator write a policy of
// their own in configuration.
package retry

import (
	"math"
	"time"

	"fedpost/internal/activity/outcome"
)

// Policy says how often and when a delivery is tried.
type Policy struct {
	Name string
	// Tries is the number of quick attempts on the queue, the first included.
	Tries int
	// First is the wait after the first failure; each next is Factor times it.
	First  time.Duration
	Factor float64
	// Jitter spreads each wait by ± this fraction, so that the recipients of a
	// failed host do not come back as a herd.
	Jitter float64
	// Park says that a delivery is parked after the quick tries. Otherwise it is
	// exhausted then.
	Park bool
	// GiveUp is the age at which a parked delivery is dead.
	GiveUp time.Duration
	// NetworkOnly says that only time-outs and connection errors are tried again, and
	// that every answer is final.
	NetworkOnly bool
	// Circuit: the shared state of the host decides whether to try at all.
	Circuit bool
	// Timeout of one attempt; 0 is the client's own.
	Timeout time.Duration
	// ExhaustedStatus is the status that is recorded when a delivery is exhausted and
	// no answer ever came; 0 records none.
	ExhaustedStatus int
}

// MaxWait is the longest wait of a policy: the longest delay of a queue
// (queue.MaxDelay). The queue would silently shorten longer waits.
const MaxWait = 15 * time.Minute

// Wait returns how long to wait after the given number of failed attempts (1
// after the first), given a random number in [0, 1). It is never longer than
// MaxWait and never negative.
func (p Policy) Wait(attempts int, random float64) time.Duration {
	if attempts < 1 {
		attempts = 1
	}
	wait := float64(p.First) * math.Pow(p.Factor, float64(attempts-1))
	wait *= 1 + p.Jitter*(2*random-1)
	if math.IsNaN(wait) || wait < 0 {
		return 0
	}
	// Compared as float: a product beyond the range of a Duration would wrap.
	if wait > float64(MaxWait) {
		return MaxWait
	}
	return time.Duration(wait)
}

// doubts is how often a delivery is tried whose outcomes are Doubtful: now, and
// with the waits of ActivityPub after half a minute and after another minute.
const doubts = 3

// doubtful is how many times as long as others a delivery waits whose outcome is
// Doubtful: whatever the other server lacks, it has to fetch it first.
const doubtful = 6

// Again reports whether an outcome, after a number of tries, is worth another
// one at all.
func (p Policy) Again(o outcome.Outcome, tries int) bool {
	if p.NetworkOnly && (o.Status != 0 || o.Reason == outcome.ReasonNone) {
		return false
	}
	switch o.Class {
	case outcome.Retry, outcome.Throttled, outcome.Unverified:
		return true
	case outcome.Doubtful:
		return tries < doubts
	}
	return false
}

// WaitAfter is Wait after the given outcome.
func (p Policy) WaitAfter(o outcome.Outcome, attempts int, random float64) time.Duration {
	wait := p.Wait(attempts, random)
	if o.Class == outcome.Doubtful {
		return min(wait*doubtful, MaxWait)
	}
	return wait
}

// Left returns how many quick tries are left after a number of attempts.
func (p Policy) Left(attempts int) int { return max(0, p.Tries-attempts) }
