// Package activity is the vocabulary that the rest of fedpost shares: what is
// delivered (an Activity), to whom (a Target), how soon (a Priority) and what
// has become of it (a State).
//
// It holds values only. It imports nothing of fedpost, so every other package
// may import it, and it knows neither HTTP nor AWS.
package activity

import "time"

// Protocol names the federation protocol an activity is delivered by.
type Protocol string

// The protocols fedpost speaks.
const (
	ActivityPub Protocol = "activitypub"
	Sipher      Protocol = "sipher"
)

// Priority says which standard queue an activity waits in. Each queue has
// consumers of its own, so a flood of one never starves another.
type Priority string

// The priorities, most urgent first.
const (
	High   Priority = "high"
	Normal Priority = "normal"
	Low    Priority = "low"
)

// Priorities lists all priorities, most urgent first.
var Priorities = []Priority{High, Normal, Low}

// Valid reports whether p is one of Priorities.
func (p Priority) Valid() bool { return p == High || p == Normal || p == Low }

// Coalesce chooses whether activities that a newer one makes redundant are
// dropped instead of sent.
type Coalesce string

// The two choices. None is the default, because dropping a Create in favour of
// its Update breaks ActivityPub receivers that never saw the Create.
const (
	CoalesceNone   Coalesce = "none"
	CoalesceLatest Coalesce = "latest"
)

// Activity is one thing to deliver and everything about it that is the same
// for every recipient. It travels inside queue messages, so its JSON names are
// short and its fields are only ever added to.
type Activity struct {
	ID       ID       `json:"id"`
	Protocol Protocol `json:"protocol"`

	// Body is the exact bytes that go on the wire. It is a string, never a
	// json.RawMessage, because encoding/json compacts and escapes the latter
	// and the receiver checks a digest of these bytes.
	Body string `json:"body"`

	// Type is the activity's type ("Create", "Like"), for priorities,
	// redundancy and logs. Empty if it has none.
	Type string `json:"type,omitempty"`

	Options

	// Headers are added to each request (ActivityPub).
	Headers Headers `json:"headers,omitempty"`

	// Sequence places an ordered activity among those of the same OrderingKey.
	// It is the ordered queue's sequence number, set when the activity is first
	// received; strings of equal length that compare as the numbers do.
	Sequence string `json:"seq,omitempty"`

	// Trace is the W3C traceparent of the sampled span that put the activity on its queue;
	// empty if the call was not traced. Spans of all later work link to it.
	Trace string `json:"trace,omitempty"`

	CreatedAt time.Time `json:"createdAt"`

	// DueAt is when a delayed activity became due, from which its give-up time counts; zero:
	// with CreatedAt. Its record says so, too, and may be forgotten while the activity waits
	// for a server.
	DueAt time.Time `json:"dueAt,omitzero"`

	// ExpiresAt is when it is no longer worth delivering; zero means never
	// before the retry policy gives up.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`

	// Apart is set if the body is stored once, beside the activity's record. Messages and
	// items then have Apart in place of Body.
	Apart Apart `json:"apart,omitzero"`
}

// Apart says where a body is that is stored once for many messages and items.
type Apart struct {
	// Parts is in how many parts the body is stored; 0: it is not.
	Parts int `json:"parts"`
	// Until is the time until which the store has promised to keep the body.
	Until time.Time `json:"until"`
}

// Light returns a as messages and items carry it: without its body, if that is stored
// once.
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

// Ordered reports whether a must keep its place among others of its key.
func (a Activity) Ordered() bool { return a.OrderingKey != "" }
