package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// Submission is the body of POST /v1/activities.
type Submission struct {
	// Activity is delivered byte for byte. json.Marshal would rewrite these bytes:
	// encode a Submission with Encode.
	Activity   json.RawMessage `json:"activity,omitempty"`
	Recipients []Recipient     `json:"recipients"`
	KeyID      string          `json:"keyId,omitempty"`
	// AllowKeyOfOther permits a key that is not the activity's actor's, as for
	// forwarding.
	AllowKeyOfOther bool `json:"allowKeyOfOther,omitempty"`
	// Headers are added to each request of the delivery.
	Headers []Header `json:"headers,omitempty"`
	// Protocol is activitypub (the default) or sipher.
	Protocol string `json:"protocol,omitempty"`
	// Job, ServerURL and Payload are a Sipher job's, which has no Activity.
	Job       string `json:"job,omitempty"`
	ServerURL string `json:"serverUrl,omitempty"`
	Payload   string `json:"payload,omitempty"`

	DeduplicationKey string `json:"deduplicationKey,omitempty"`
	// DeduplicationTTL is how long the key is remembered; 0 is the installation's
	// default (DEDUPLICATION_TTL).
	DeduplicationTTL Duration `json:"deduplicationTtl,omitempty"`
	OrderingKey      string   `json:"orderingKey,omitempty"`
	Delay            Duration `json:"delay,omitempty"`
	// Priority is high, normal or low; empty is the default of the activity's type.
	Priority string `json:"priority,omitempty"`
	// ExpiresIn is how long the activity may be delivered, counted from when it is due;
	// 0: as long as the retry policy tries.
	ExpiresIn Duration `json:"expiresIn,omitempty"`
	// PreferSharedInbox, nil for true, sends once to a shared inbox that several
	// recipients name.
	PreferSharedInbox *bool `json:"preferSharedInbox,omitempty"`
	// Coalesce is none (the default) or latest.
	Coalesce       string `json:"coalesce,omitempty"`
	CoalesceCreate bool   `json:"coalesceCreate,omitempty"`
	// Notify asks for the event activity.done.
	Notify bool `json:"notify,omitempty"`
}

// Encode returns s as JSON and keeps the activity's bytes as they are. json.Marshal would
// compact and escape them, but the digest that is signed covers exactly these bytes.
func (s Submission) Encode() ([]byte, error) {
	activity := s.Activity
	s.Activity = nil
	rest, err := Encode(s)
	if err != nil || activity == nil {
		return rest, err
	}
	body := append([]byte(`{"activity":`), activity...)
	body = append(body, ',')
	return append(body, rest[1:]...), nil
}

// Encode is json.Marshal without the escaping of <, > and &, and with a newline
// at the end.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return b.Bytes(), nil
}

// Batch is the body of POST /v1/activities/batch.
type Batch struct {
	Activities       []Submission `json:"activities"`
	DeduplicationKey string       `json:"deduplicationKey,omitempty"`
	DeduplicationTTL Duration     `json:"deduplicationTtl,omitempty"`
}

// Recipient is an inbox, and the shared inbox of its server if it has one. One
// without is written as a string.
type Recipient struct {
	Inbox       string `json:"inbox"`
	SharedInbox string `json:"sharedInbox,omitempty"`
	// Headers are added to each request to it, in place of those of the activity with the
	// same names.
	Headers []Header `json:"headers,omitempty"`
}

// Header is a header that is added to requests of a delivery.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Sign  bool   `json:"sign,omitempty"` // the signature covers it
}

// MarshalJSON implements json.Marshaler.
func (r Recipient) MarshalJSON() ([]byte, error) {
	if r.SharedInbox == "" && len(r.Headers) == 0 {
		return json.Marshal(r.Inbox)
	}
	type object Recipient // without this method
	return json.Marshal(object(r))
}

// To returns inboxes as recipients.
func To(inboxes ...string) []Recipient {
	all := make([]Recipient, len(inboxes))
	for i, inbox := range inboxes {
		all[i].Inbox = inbox
	}
	return all
}

// Accepted is the answer to a Submission.
type Accepted struct {
	ID string `json:"id"`
	// Status is queued, or duplicate if the deduplication key was used before. For a
	// duplicate, ID is the id of the first activity.
	Status     string `json:"status"`
	Recipients int    `json:"recipients"`
}

// AcceptedBatch is the answer to a Batch.
type AcceptedBatch struct {
	Status     string     `json:"status"`
	Activities []Accepted `json:"activities"` // in the order of the request
}

// Status is the answer to GET /v1/activities/{id}.
type Status struct {
	ID         string            `json:"id"`
	Status     string            `json:"status"` // queued, delivering, done or cancelled
	Counts     map[string]int    `json:"counts"` // recipients by state
	Recipients []RecipientStatus `json:"recipients"`
	NextCursor string            `json:"nextCursor,omitempty"` // empty on the last page
}

// RecipientStatus is the state of the delivery to one inbox.
type RecipientStatus struct {
	Inbox string `json:"inbox"`
	State string `json:"state"`
	// Recipients is how many the inbox stands for, if more than one.
	Recipients int `json:"recipients,omitempty"`
	Attempts   int `json:"attempts"`
	LastStatus int `json:"lastStatus,omitempty"`
	// LastError, Response and Note are cut to 1 KiB and hold no control characters:
	// they may quote a stranger's server.
	LastError string `json:"lastError,omitempty"`
	Response  string `json:"response,omitempty"`
	Note      string `json:"note,omitempty"`
	// WaitsFor is what a parked delivery waits for: the host, or "inbox:" and the URL,
	// whose circuit, pause or rate limit is the cause.
	WaitsFor string `json:"waitsFor,omitempty"`
	// NextAttemptAt is unset for a final state. For a parked delivery it is the time of
	// the next look at the server that WaitsFor names.
	NextAttemptAt time.Time `json:"nextAttemptAt,omitzero"`
	UpdatedAt     time.Time `json:"updatedAt,omitzero"`
	// LastAttempts are up to five, oldest first, if the first did not get through.
	LastAttempts []Attempt `json:"lastAttempts,omitempty"`
	// By is the id of the activity that made this delivery redundant or superseded it.
	By string `json:"by,omitempty"`
}

// Cancelled is the answer to POST /v1/activities/{id}/cancel.
type Cancelled struct {
	ID     string         `json:"id"`
	Status string         `json:"status"`
	Counts map[string]int `json:"counts"` // recipients by state, as they stand
}

// Retry is the body of POST /v1/activities/{id}/retry. Without states both failed and dead
// recipients are retried; without inboxes all of them.
type Retry struct {
	States  []string `json:"states,omitempty"`
	Inboxes []string `json:"inboxes,omitempty"`
	Cursor  string   `json:"cursor,omitempty"` // the NextCursor of the answer before
}

// RetriedActivity is the answer to a Retry.
type RetriedActivity struct {
	ID string `json:"id"`
	// Retried counts the inboxes that get fresh attempts; Unavailable those of which
	// nothing is kept to send, or that are on their way by an earlier retry.
	Retried     int    `json:"retried"`
	Unavailable int    `json:"unavailable"`
	NextCursor  string `json:"nextCursor,omitempty"` // set if there are more: repeat the request with it
}

// Attempt is one attempt to deliver to a recipient.
type Attempt struct {
	At     time.Time `json:"at"`
	Status int       `json:"status,omitempty"` // of the answer; absent if none came
	Error  string    `json:"error,omitempty"`
	Form   string    `json:"form,omitempty"` // of the signature
	MS     int64     `json:"ms"`
}
