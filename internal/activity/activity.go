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
