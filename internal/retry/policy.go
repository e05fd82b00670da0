// Package retry decides when a failed delivery is tried again, and when it is
// given up.
//
// A policy is data, not code: a few quick tries on the queue with growing
// waits, and then either the parking lot for days (ActivityPub, where servers
// go away for a week-end and come back) or the end (Sipher, LDP). That keeps
// the engine free of special cases and lets an operator write a policy of
// their own in configuration.
package retry

import "time"

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
	// Park: after the quick tries the delivery waits for its server to come
	// back. Without, it is exhausted.
	Park bool
	// GiveUp is the age at which a parked delivery is dead.
	GiveUp time.Duration
	// NetworkOnly: only time-outs and connection errors are tried again, every
	// answer is final.
	NetworkOnly bool
	// Circuit: the shared state of the host decides whether to try at all.
	Circuit bool
	// Timeout of one attempt; 0 is the client's own.
	Timeout time.Duration
	// ExhaustedFailed: exhaustion is recorded as failed, not dead, with status
	// 408 where no answer ever came.
	ExhaustedStatus int
}
