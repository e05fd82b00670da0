// Package dedup lets one of many concurrent callers with the same
// deduplication key through, and tells the others why they are not.
//
// A marker that is merely set before a send and left there swallows the
// caller's retry if the process dies in between; one that is set after the send
// lets two callers through. So a marker is a lease: pending, under a token and
// until a time, then sent. Who finds a lapsed lease takes it over together with
// the activity's id, and because everything behind the queue is idempotent by
// that id, it does not matter whether the first holder got as far as sending.
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
	// At is when the key's first holder was called: who takes over puts the same
	// message together.
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
