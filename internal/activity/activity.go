// Package activity is the vocabulary that the rest of fedpost shares: what is delivered (an Activity), to
// whom (a Target), how soon (a Priority) and its state (a State). It holds values only and imports nothing
// of fedpost.
package activity

import "time"

// Protocol names the federation protocol an activity is delivered by.
type Protocol string

// The protocols fedpost speaks.
const (
	ActivityPub Protocol = "activitypub"
	Sipher      Protocol = "sipher"
)

// Priority says which standard queue an activity waits in. Each queue has its own consumers, so a flood of
// one priority does not delay the others.
type Priority string

// The priorities, most urgent first.
const (
	High   Priority = "high"
	Normal Priority = "normal"
	Low    Priority = "low"
)

// Priorities lists all priorities, most urgent first.
var Priorities = []Priority{High, Normal, Low}

func (p Priority) Valid() bool { return p == High || p == Normal || p == Low }

// Coalesce chooses whether unsent older versions of an activity are skipped.
type Coalesce string

// None is the default: receivers that never saw a Create do not understand its Update.
const (
	CoalesceNone   Coalesce = "none"
	CoalesceLatest Coalesce = "latest"
)

// Activity is one thing to deliver and everything about it that is the same for every recipient. It travels
// in queue messages, so its JSON names are short and its fields are only ever added to.
type Activity struct {
	ID       ID       `json:"id"`
	Protocol Protocol `json:"protocol"`

	// Body is the exact bytes that go on the wire: a string, because encoding/json compacts and escapes a
	// json.RawMessage, and the receiver checks a digest.
	Body string `json:"body"`

	// Type is the activity's type ("Create", "Like"); empty if it has none.
	Type string `json:"type,omitempty"`

	// Author is the document of the activity's actor if its key is another's; else empty.
	Author string `json:"author,omitempty"`

	Options

	// Headers are added to each request (ActivityPub).
	Headers Headers `json:"headers,omitempty"`

	// Sequence places an ordered activity among those of the same OrderingKey. It is the ordered queue's
	// sequence number, set at the first receive: strings of equal length that compare as the numbers do.
	Sequence string `json:"seq,omitempty"`

	// Trace is the W3C traceparent of the sampled span that put the activity on its queue; empty: none. Later
	// spans link to it.
	Trace string `json:"trace,omitempty"`

	CreatedAt time.Time `json:"createdAt"`

	// DueAt is when a delayed activity became due, from which its give-up time counts; zero: CreatedAt. Its
	// record, which also has it, may expire while the activity waits for a server.
	DueAt time.Time `json:"dueAt,omitzero"`

	// ExpiresAt is when it is no longer worth delivering; zero: not before the retry policy gives up.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`

	// Apart is set if the body is stored once, beside the activity's record. Messages and items then have no
	// Body.
	Apart Apart `json:"apart,omitzero"`
}

// Apart says where a body is that is stored once for many messages and items.
type Apart struct {
	// Parts is the number of parts of the stored body; 0: it is not stored.
	Parts int `json:"parts"`
	// Until is how long the store keeps the body at least.
	Until time.Time `json:"until"`
}

// Light returns a without its body, if that is stored once.
func (a Activity) Light() Activity {
	if a.Apart.Parts > 0 {
		a.Body = ""
	}
	return a
}

// Expired reports whether delivering a at now would be too late.
func (a Activity) Expired(now time.Time) bool {
	return !a.ExpiresAt.IsZero() && !now.Before(a.ExpiresAt)
}

// Ordered reports whether a must be delivered in order with others of its key.
func (a Activity) Ordered() bool { return a.OrderingKey != "" }

// MaxMetadata is the longest metadata in bytes, without white space: each message, parked delivery, dead
// letter and event has a copy.
const MaxMetadata = 1 << 10

// Options are the fields of a request that delivery needs, too, so they are declared once. Their names are
// those of the API and of messages, and are only ever added to.
type Options struct {
	// KeyID is the id of the signing key in the key store, and keyId of the signature (ActivityPub).
	KeyID string `json:"keyId,omitempty"`

	// Job and ServerURL are the Sipher job name and the origin of the target URL's server.
	Job       string `json:"job,omitempty"`
	ServerURL string `json:"serverUrl,omitempty"`

	// Priority: if a request names none, the activity's type decides.
	Priority    Priority `json:"priority,omitempty"`
	OrderingKey string   `json:"orderingKey,omitempty"`

	// Coalesce is empty for none.
	Coalesce       Coalesce `json:"coalesce,omitempty"`
	CoalesceCreate bool     `json:"coalesceCreate,omitempty"`

	// Notify asks for the event activity.done when all recipients are finished.
	Notify bool `json:"notify,omitempty"`

	// Metadata is a JSON object of the caller's that is returned wherever the activity is shown; empty for
	// none.
	Metadata string `json:"metadata,omitempty"`
}

type State string

// Final states never change again, but a retry on request gives failed and dead recipients fresh attempts.
const (
	Queued     State = "queued"     // not tried yet
	Retrying   State = "retrying"   // failed for now, its next try is on a queue
	Parked     State = "parked"     // waits in the table for its host to come back
	Delivered  State = "delivered"  // answered 2xx
	Failed     State = "failed"     // refused for good
	Dead       State = "dead"       // retries exhausted: in the dead-letter queue
	Expired    State = "expired"    // not worth delivering any more
	Redundant  State = "redundant"  // the inbox has this state already
	Superseded State = "superseded" // a newer activity replaces it
	Cancelled  State = "cancelled"  // stopped by the caller
)

// States lists all states.
var States = []State{Queued, Retrying, Parked, Delivered, Failed, Dead, Expired, Redundant, Superseded, Cancelled}

// Final reports whether the recipient needs no more work.
func (s State) Final() bool {
	switch s {
	case Delivered, Failed, Dead, Expired, Redundant, Superseded, Cancelled:
		return true
	}
	return false
}
