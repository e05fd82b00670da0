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

	// Set by the check: the headers, and the URLs as the caller wrote them.
	encoded                     activity.Headers
	writtenInbox, writtenShared string
}

// Request asks for one activity to be delivered.
type Request struct {
	Protocol activity.Protocol
	// Body holds the exact bytes to deliver: the activity's JSON as the caller
	// wrote it or, for Sipher, the payload to encrypt. Nil if missing.
	Body *string

	activity.Options

	// AllowKeyOfOther permits a key that does not belong to the activity's actor: a
	// server that forwards an activity, or a relay, signs with its own.
	AllowKeyOfOther bool

	// Headers are added to each request (ActivityPub).
	Headers []activity.Header

	Recipients []Recipient

	// DeduplicationKey is nil if there is none.
	DeduplicationKey *string
	DeduplicationTTL time.Duration // 0: the default
	DeduplicateBy    DeduplicateBy

	Delay time.Duration
	// ExpiresIn is how long after its due time the activity is still worth
	// delivering. 0: as long as the retry policy tries.
	ExpiresIn time.Duration

	// EveryInbox turns the shared-inbox collapse off.
	EveryInbox bool
}

// BatchRequest asks for several activities, all or none, under one key.
type BatchRequest struct {
	Requests         []Request
	DeduplicationKey *string
	DeduplicationTTL time.Duration
	DeduplicateBy    DeduplicateBy
}

// DeduplicateBy says what must be equal for a request to be a duplicate of the first one with
// its key. Empty is ByRequest.
type DeduplicateBy string

const (
	// ByRequest: the whole request. Any other request with the key is refused.
	ByRequest DeduplicateBy = "request"
	// ByKey: all but the body, for callers whose body has a new signature or time in each
	// attempt. Inboxes and options must be equal: a call that takes over from a crashed one
	// sends under the first one's record, which lists its inboxes.
	ByKey DeduplicateBy = "key"
)

// Status says whether a request was queued or is a duplicate.
type Status string

// The statuses of the wire contract.
const (
	Queued    Status = "queued"
	Duplicate Status = "duplicate"
)

type Result struct {
	ID     activity.ID
	Status Status
	// Recipients counts the distinct recipients.
	Recipients int
}
