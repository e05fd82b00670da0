// Package dedup lets exactly one of many concurrent callers with the same
// deduplication key send, and tells the others why they may not.
//
// A marker is a lease: pending, with a token and an end, then sent. A caller that finds a lapsed
// lease takes it over together with the activity's id. Whether the first holder had sent does not
// matter, because all work after the queue is idempotent by the activity's id.
//
// One rule keeps this true: once an activity may have been sent under an id, the
// key stands for no other id within its window.
package dedup

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
)

// State is how far the holder of a marker has come.
type State string

// The states. A definite failure removes the marker.
const (
	Pending State = "pending"
	Sent    State = "sent"
)

// Marker is what is stored under a key.
type Marker struct {
	State State `json:"state"`
	// Token identifies the holder. Changes are a compare-and-swap on it, so a slow holder
	// cannot change a marker that another call has taken over.
	Token string `json:"-"`
	// LeaseUntil is when a pending marker may be taken over.
	LeaseUntil time.Time   `json:"lease"`
	ID         activity.ID `json:"id"` // of the activity that the key stands for
	// At is the time of the first holder's call, from which a caller that takes over builds
	// the same message.
	At time.Time `json:"at"`
	// Fingerprint shows whether a later call with the key makes the same request.
	Fingerprint string `json:"fp,omitempty"`
	// Expires is when the key becomes free again, in either state.
	Expires time.Time `json:"-"`
}

// Verdict is what a caller who finds a marker may do.
type Verdict int

const (
	Free      Verdict = iota // nobody holds the key
	Lapsed                   // take it over, with its id
	Held                     // another call holds the lease: retry when it ends
	Done                     // a duplicate
	Different                // the key stands for another request
)

// Judge says what a caller whose request has the given fingerprint may do at now.
// found is the stored marker, nil if there is none.
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

// Name is a deduplication key with its namespace: the same key on another queue,
// or for another operation, is another key.
type Name struct {
	Queue     queue.Name
	Operation string
	Key       string
}

// Hash returns 43 characters of the URL-safe alphabet for use in stores and queues: the key
// itself may be any string.
func (n Name) Hash() string {
	h := sha256.New()
	for _, part := range []string{string(n.Queue), n.Operation, n.Key} {
		// With the lengths, ("a", "bc") differs from ("ab", "c").
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
