// Package dedup lets one of many concurrent callers with the same
// deduplication key through, and tells the others why they are not.
//
// A marker that is set before the send and never taken back would swallow the
// caller's retry if the process died in between. A marker that is set after the
// send would let two callers through. A marker is therefore a lease: pending, with
// a token and an end, then sent. A caller that finds a lapsed lease takes it over
// together with the activity's id. Whether the first holder had sent does not
// matter, because all work behind the queue is idempotent by that id.
//
// The rule that keeps it so: once an id may have been sent, the key never
// stands for another id within its window.
package dedup

import (
	"time"

	"fedpost/internal/activity"
)

// State is where a marker stands.
type State string

// The states. There is no state for "failed": a definite failure removes the
// marker, so that the key is as free as if it had never been used.
const (
	Pending State = "pending"
	Sent    State = "sent"
)

// Marker is what is stored under a key.
type Marker struct {
	State State `json:"state"`
	// Token is the holder's: every change after the first is compare-and-swap
	// on it, so that a slow holder cannot touch what another has taken over.
	Token string `json:"-"`
	// LeaseUntil is when a pending marker may be taken over.
	LeaseUntil time.Time `json:"lease"`
	// ID is the activity that the key stands for.
	ID activity.ID `json:"id"`
	// At is when the key's first holder was called: a caller that takes over builds
	// the same message from it.
	At time.Time `json:"at"`
	// Fingerprint tells whether the key is used for the same request.
	Fingerprint string `json:"fp,omitempty"`
	// Expires is when the key is free again, whatever the state.
	Expires time.Time `json:"-"`
}

// Verdict is what a caller who finds a marker may do.
type Verdict int

// The verdicts.
const (
	Free      Verdict = iota // nobody holds the key
	Lapsed                   // take it over, with its id
	Held                     // another call is at it: come back when the lease ends
	Done                     // a duplicate
	Different                // the key stands for another request
)

// Judge says what a caller with a request of that fingerprint may do at now,
// given the marker found (nil for none).
func Judge(found *Marker, fingerprint string, now time.Time) Verdict {
	switch {
	case found == nil || !found.Expires.After(now):
		return Free
	case found.Fingerprint != fingerprint:
		return Different
	case found.State == Sent:
		return Done
	case found.LeaseUntil.After(now):
		return Held
	default:
		return Lapsed
	}
}
