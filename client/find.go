package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"time"
)

// Activities is a page of activities.
type Activities struct {
	Activities []FoundActivity `json:"activities"`
	NextCursor string          `json:"nextCursor,omitempty"`
}

// FoundActivity is an activity in a list: fields of its own, and its progress.
type FoundActivity struct {
	ID         string          `json:"id"`
	ActivityID string          `json:"activityId,omitempty"` // the activity's own id
	Actor      string          `json:"actor,omitempty"`
	Type       string          `json:"type,omitempty"`
	KeyID      string          `json:"keyId,omitempty"`
	Object     string          `json:"object,omitempty"` // the id of what it is about
	Bytes      int             `json:"bytes,omitempty"`  // length of the activity
	CreatedAt  time.Time       `json:"createdAt"`
	Status     string          `json:"status"`
	Counts     map[string]int  `json:"counts"` // recipients by state
	Metadata   json.RawMessage `json:"metadata,omitempty"`
	// Body is the activity, if the request asked for it and the table has it: once a recipient has
	// refused it, is parked in no ordered group, or is dead.
	Body string `json:"body,omitempty"`
}

// Waiting is a page of the deliveries that wait for a server, and their number.
type Waiting struct {
	Server string `json:"server"`
	Count  int    `json:"count"`
	// AtLeast is true if there are more than Count: counting ends there.
	AtLeast    bool              `json:"atLeast"`
	Deliveries []WaitingDelivery `json:"deliveries"`
	NextCursor string            `json:"nextCursor,omitempty"`
}

// WaitingDelivery is a delivery that waits for its server.
type WaitingDelivery struct {
	Activity       string          `json:"activity"`
	Type           string          `json:"type,omitempty"`
	KeyID          string          `json:"keyId,omitempty"`
	Inbox          string          `json:"inbox"`
	CanonicalInbox string          `json:"canonicalInbox,omitempty"` // as in RecipientStatus
	Attempts       int             `json:"attempts"`
	OrderingKey    string          `json:"orderingKey,omitempty"`
	Metadata       json.RawMessage `json:"metadata,omitempty"`
	Since          time.Time       `json:"since"`
	GiveUpAt       time.Time       `json:"giveUpAt"`
}

// WaitingInAll is how many deliveries wait for servers. AtLeast is true if there are more
// than Count.
type WaitingInAll struct {
	Count   int  `json:"count"`
	AtLeast bool `json:"atLeast"`
}

// ActivityQuery selects activities; its zero value those of the last 7 days.
type ActivityQuery struct {
	ID         string    // fedpost's id
	Body       bool      // with ID: the activity, too
	ActivityID string    // the activity's own id
	Actor      string    // who sent it
	Since      time.Time // accepted then or later, up to 60 days ago
	State      string    // of the activity, or of one of its recipients at least
	Limit      int       // 0: no limit
}

// Activities finds activities, the newest first; those of one ActivityID the oldest first.
func (c *Client) Activities(ctx context.Context, q ActivityQuery) iter.Seq2[FoundActivity, error] {
	query := queryOf("id", q.ID, "body", trueOf(q.Body), "activityId", q.ActivityID, "actor", q.Actor, "since", timeOf(q.Since), "state", q.State)
	return pages[FoundActivity](ctx, c, "/v1/activities", query, "activities", q.Limit, 100)
}

// ActivitySelection selects the activities that match all fields that are set. Set at least one.
type ActivitySelection struct {
	Actor  string    `json:"actor,omitempty"` // who sent it
	Type   string    `json:"type,omitempty"`  // such as Create
	Since  time.Time `json:"since,omitzero"`  // accepted then or later; default: 60 days ago
	Until  time.Time `json:"until,omitzero"`  // accepted before
	Cursor string    `json:"cursor,omitempty"`
}

// CancelledActivities is the answer to an ActivitySelection.
type CancelledActivities struct {
	Cancelled int `json:"cancelled"`
	// Over counts those that match and were done or cancelled before.
	Over int `json:"over"`
	// Reached is when the activity that was read last was accepted; the newest are read first.
	Reached    time.Time `json:"reached,omitzero"`
	NextCursor string    `json:"nextCursor,omitempty"` // set if there are more: repeat the request with it
}

// CancelMany cancels the activities that match s. One call takes up to 15 seconds; give the
// NextCursor of its answer to the next.
func (c *Client) CancelMany(ctx context.Context, s ActivitySelection) (CancelledActivities, error) {
	return send[CancelledActivities](ctx, c, request{method: http.MethodPost, path: "/v1/activities/cancel", in: s, harmless: true})
}

// Waiting counts what waits for a server, named as for Server, and lists a page of it, from a
// cursor if that is not empty.
func (c *Client) Waiting(ctx context.Context, server, cursor string) (Waiting, error) {
	return get[Waiting](ctx, c, serverPath(server)+"/waiting", queryOf("cursor", cursor))
}
