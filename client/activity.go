package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
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
	// DeduplicateBy is request (the default), or key: then a call whose activity has other bytes is
	// a duplicate, too.
	DeduplicateBy string   `json:"deduplicateBy,omitempty"`
	OrderingKey   string   `json:"orderingKey,omitempty"`
	Delay         Duration `json:"delay,omitempty"`
	// Priority is high, normal or low; empty is the default of the activity's type.
	Priority string `json:"priority,omitempty"`
	// ExpiresIn is how long the activity may be delivered, counted from when it is due;
	// 0: as long as the retry policy tries.
	ExpiresIn Duration `json:"expiresIn,omitempty"`
	// PreferSharedInbox, nil for true, sends once to a shared inbox that several
	// recipients name.
	PreferSharedInbox *bool `json:"preferSharedInbox,omitempty"`
	// Coalesce is none (the default), or latest, which skips unsent older versions.
	Coalesce       string `json:"coalesce,omitempty"`
	CoalesceCreate bool   `json:"coalesceCreate,omitempty"`
	// Notify asks for the event activity.done.
	Notify bool `json:"notify,omitempty"`
	// Metadata is a JSON object of up to 1 KiB that is returned wherever the activity is shown, and
	// in its events, so that the application finds its own row.
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// Encode returns s as JSON and keeps the activity's bytes as they are. json.Marshal would
// compact and escape them, but the digest that is signed covers exactly these bytes.
func (s Submission) Encode() ([]byte, error) {
	activity := s.Activity
	s.Activity = nil
	rest, err := encode(s)
	if err != nil || activity == nil {
		return rest, err
	}
	body := append([]byte(`{"activity":`), activity...)
	body = append(body, ',')
	return append(body, rest[1:]...), nil
}

// encode is json.Marshal without the escaping of <, > and &, and with a newline
// at the end.
func encode(v any) ([]byte, error) {
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
	DeduplicateBy    string       `json:"deduplicateBy,omitempty"` // as in Submission
}

// Encode returns b as JSON and keeps the bytes of its activities as they are.
func (b Batch) Encode() ([]byte, error) {
	all := b.Activities
	b.Activities = nil
	rest, err := encode(b)
	if err != nil {
		return nil, err
	}
	body := []byte(`{"activities":[`)
	for i, s := range all {
		one, err := s.Encode()
		if err != nil {
			return nil, err
		}
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, bytes.TrimSpace(one)...)
	}
	body = append(body, ']')
	return append(body, bytes.TrimPrefix(rest, []byte(`{"activities":null`))...), nil
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

func (a *Accepted) whole() bool { return a.ID != "" }

// Checked is the answer to a check of a Submission.
type Checked struct {
	Recipients int `json:"recipients"` // distinct ones
	Inboxes    int `json:"inboxes"`    // as many requests, if each succeeds at once
	// Shared are the inboxes that stand for several recipients, Refused those whose address
	// fedpost would not dial: the first 1,000 of each.
	Shared  []SharedInbox  `json:"shared"`
	Refused []RefusedInbox `json:"refused"`
}

// SharedInbox is an inbox that stands for several recipients.
type SharedInbox struct {
	Inbox      string `json:"inbox"`
	Recipients int    `json:"recipients"`
}

// RefusedInbox is an inbox whose address would not be dialled, as far as its URL shows.
type RefusedInbox struct {
	Inbox  string `json:"inbox"`
	Detail string `json:"detail"`
}

// AcceptedBatch is the answer to a Batch.
type AcceptedBatch struct {
	Status     string     `json:"status"`
	Activities []Accepted `json:"activities"` // in the order of the request
}

func (a *AcceptedBatch) whole() bool { return a.Status != "" }

// The states of a recipient. The first three may change; the others are final.
const (
	StateQueued     = "queued"     // not tried yet
	StateRetrying   = "retrying"   // failed for now
	StateParked     = "parked"     // waits for its server to come back
	StateDelivered  = "delivered"  // its server has accepted it
	StateFailed     = "failed"     // refused for good
	StateDead       = "dead"       // all attempts failed
	StateExpired    = "expired"    // not delivered before it expired
	StateRedundant  = "redundant"  // the inbox has this state already
	StateSuperseded = "superseded" // a newer activity replaces it
	StateCancelled  = "cancelled"
)

// Status is the answer to GET /v1/activities/{id}.
type Status struct {
	ID         string            `json:"id"`
	Status     string            `json:"status"` // queued, delivering, done or cancelled
	Counts     map[string]int    `json:"counts"` // recipients by state
	Metadata   json.RawMessage   `json:"metadata,omitempty"`
	Recipients []RecipientStatus `json:"recipients"`
	NextCursor string            `json:"nextCursor,omitempty"` // empty on the last page
}

func (s *Status) whole() bool { return s.ID != "" }

// RecipientStatus is the state of the delivery to one inbox.
type RecipientStatus struct {
	// Inbox is the inbox as the caller wrote it. CanonicalInbox is the spelling in which fedpost
	// stores it and posts to it, if that differs.
	Inbox          string `json:"inbox"`
	CanonicalInbox string `json:"canonicalInbox,omitempty"`
	State          string `json:"state"`
	// Recipients is how many the inbox stands for, if more than one.
	Recipients int `json:"recipients,omitempty"`
	Attempts   int `json:"attempts"`
	LastStatus int `json:"lastStatus,omitempty"`
	// LastError, Response and Note are cut to 1 KiB and hold no control characters:
	// they may quote a stranger's server.
	LastError string `json:"lastError,omitempty"`
	Response  string `json:"response,omitempty"`
	Note      string `json:"note,omitempty"`
	// Reason says in words why a delivery waits, such as "connection refused since 09:11
	// UTC"; empty in a final state. It has up to 120 bytes.
	Reason string `json:"reason,omitempty"`
	// WaitsFor is what a parked delivery waits for: the host, or "inbox:" and the URL,
	// whose circuit, pause or rate limit is the cause.
	WaitsFor string `json:"waitsFor,omitempty"`
	// NextAttemptAt is unset for a final state. For a parked delivery it is when the server that
	// WaitsFor names is checked next.
	NextAttemptAt time.Time `json:"nextAttemptAt,omitzero"`
	UpdatedAt     time.Time `json:"updatedAt,omitzero"`
	// LastAttempts are up to five, oldest first, if the first attempt failed.
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
	// Retried counts the inboxes that get fresh attempts; Unavailable those whose activity is no
	// longer stored, or that an earlier retry is sending to.
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

// Send submits one activity, or one job of the Sipher protocol. fedpost delivers it from then on.
// If s has no DeduplicationKey and the client has Patience, the call gets a key of its own, so that
// repeating it sends nothing twice.
func (c *Client) Send(ctx context.Context, s Submission) (Accepted, error) {
	return send[Accepted](ctx, c, c.keyed("/v1/activities", s, s.DeduplicationKey))
}

// Check checks a submission and returns the error that Send would return. It stores and sends
// nothing.
func (c *Client) Check(ctx context.Context, s Submission) (Checked, error) {
	return send[Checked](ctx, c, request{method: http.MethodPost, path: "/v1/activities/check", in: s, harmless: true})
}

// SendMany submits up to 100 activities: all of them or none. It is repeated as Send is.
func (c *Client) SendMany(ctx context.Context, b Batch) (AcceptedBatch, error) {
	return send[AcceptedBatch](ctx, c, c.keyed("/v1/activities/batch", b, b.DeduplicationKey))
}

// keyed returns a call that a deduplication key makes safe to repeat.
func (c *Client) keyed(path string, in any, given string) request {
	r := request{method: http.MethodPost, path: path, in: in, harmless: true}
	if r.harmless = given != "" || c.patience > 0; r.harmless && given == "" {
		r.key = rand.Text()
	}
	return r
}

func activityPath(id string) string { return "/v1/activities/" + url.PathEscape(id) }

// Activity returns the state of an activity, with the first 100 of its recipients.
func (c *Client) Activity(ctx context.Context, id string) (Status, error) {
	return get[Status](ctx, c, activityPath(id), nil)
}

// Progress returns the counts of an activity, without its recipients.
func (c *Client) Progress(ctx context.Context, id string) (Status, error) {
	s, err := get[Status](ctx, c, activityPath(id), url.Values{"limit": {"1"}})
	s.Recipients, s.NextCursor = nil, ""
	return s, err
}

// RecipientQuery selects recipients of an activity; its zero value all of them.
type RecipientQuery struct {
	State, Host string
	Limit       int // 0: no limit
}

// Recipients lists the recipients of an activity.
func (c *Client) Recipients(ctx context.Context, id string, q RecipientQuery) iter.Seq2[RecipientStatus, error] {
	return pages[RecipientStatus](ctx, c, activityPath(id), queryOf("state", q.State, "host", q.Host), "recipients", q.Limit, 1000)
}

// WaitUntilDone waits until all recipients of an activity are finished, and returns
// the counts. It asks often at first, and every 5 seconds later; an application that sends
// much follows Events instead, with Submission.Notify.
func (c *Client) WaitUntilDone(ctx context.Context, id string) (Status, error) {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		s, err := c.Progress(ctx, id)
		if err != nil || s.Done() {
			return s, err
		}
		if err := sleep(ctx, pause); err != nil {
			return s, fmt.Errorf("wait for %s: %w", id, err)
		}
	}
}

// Done reports whether all recipients are finished. It reads Status, too, because a newer fedpost
// may have states that this package does not know.
func (s Status) Done() bool {
	return (s.Status == "done" || s.Status == "cancelled") && len(s.Counts) > 0 && s.Counts[StateQueued]+s.Counts[StateRetrying]+s.Counts[StateParked] == 0
}

// Missed counts the recipients that have not got the activity and will not: failed, dead,
// expired or cancelled.
func (s Status) Missed() int {
	return s.Counts[StateFailed] + s.Counts[StateDead] + s.Counts[StateExpired] + s.Counts[StateCancelled]
}

// Cancel stops the deliveries of an activity that are not done yet, and counts its recipients.
func (c *Client) Cancel(ctx context.Context, id string) (Cancelled, error) {
	return send[Cancelled](ctx, c, request{method: http.MethodPost, path: activityPath(id) + "/cancel", harmless: true})
}

// Retry gives failed and dead recipients of an activity fresh attempts. One call retries some
// thousands; give the NextCursor of its answer to the next.
func (c *Client) Retry(ctx context.Context, id string, r Retry) (RetriedActivity, error) {
	return send[RetriedActivity](ctx, c, request{method: http.MethodPost, path: activityPath(id) + "/retry", in: r, harmless: true})
}

// Forget cancels an activity, and forgets its body and recipients.
func (c *Client) Forget(ctx context.Context, id string) error {
	return c.do(ctx, request{method: http.MethodDelete, path: activityPath(id)}, nil)
}

// Duration is a time.Duration that travels as ISO 8601, such as "PT90S".
type Duration time.Duration

// String is d in ISO 8601.
func (d Duration) String() string {
	return "PT" + strconv.FormatFloat(time.Duration(d).Seconds(), 'f', -1, 64) + "S"
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }
