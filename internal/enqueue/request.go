package enqueue

import (
	"time"

	"fedpost/internal/activity"
)

// Recipient is one addressee as the caller names it.
type Recipient struct {
	Inbox string
	// SharedInbox of the recipient's server, empty if unknown.
	SharedInbox string
	// Headers are added to each request to this recipient; see Request.Headers.
	Headers []activity.Header

	encoded activity.Headers // once they are checked
}

// Request asks for one activity to be delivered.
type Request struct {
	Protocol activity.Protocol
	// Body holds the exact bytes to deliver: the activity's JSON as the caller
	// wrote it or, for Sipher, the payload to encrypt. Nil if missing.
	Body *string

	KeyID string // ActivityPub
	// AllowKeyOfOther permits a key that does not belong to the activity's actor: a
	// server that forwards an activity, or a relay, signs with its own.
	AllowKeyOfOther bool

	// Headers are added to each request (ActivityPub).
	Headers []activity.Header

	Job       string // Sipher
	ServerURL string // Sipher

	Recipients []Recipient

	// DeduplicationKey is nil if there is none.
	DeduplicationKey *string
	DeduplicationTTL time.Duration // 0: the default

	OrderingKey string
	Delay       time.Duration
	Priority    activity.Priority // empty: Options.Priorities decides by type
	// ExpiresIn is how long after its due time the activity is still worth
	// delivering. 0: as long as the retry policy tries.
	ExpiresIn time.Duration

	// EveryInbox turns the shared-inbox collapse off.
	EveryInbox bool

	// Notify asks for the event activity.done.
	Notify bool

	Coalesce       activity.Coalesce // empty: none
	CoalesceCreate bool
}

// BatchRequest asks for several activities, all or none, under one key.
type BatchRequest struct {
	Requests         []Request
	DeduplicationKey *string
	DeduplicationTTL time.Duration
}

// Status says whether a request was queued or is a duplicate.
type Status string

// The statuses of the wire contract.
const (
	Queued    Status = "queued"
	Duplicate Status = "duplicate"
)

// Result is the answer to a Request.
type Result struct {
	ID     activity.ID
	Status Status
	// Recipients counts the distinct recipients.
	Recipients int
}
