package contract

import "time"

// Activities is a page of activities.
type Activities struct {
	Activities []FoundActivity `json:"activities"`
	NextCursor string          `json:"nextCursor,omitempty"`
}

// FoundActivity is an activity in a list: what it says of itself, and how far it is.
type FoundActivity struct {
	ID         string         `json:"id"`
	ActivityID string         `json:"activityId,omitempty"` // the activity's own id
	Actor      string         `json:"actor,omitempty"`
	Type       string         `json:"type,omitempty"`
	KeyID      string         `json:"keyId,omitempty"`
	CreatedAt  time.Time      `json:"createdAt"`
	Status     string         `json:"status"`
	Counts     map[string]int `json:"counts"` // recipients by state
}

// Waiting is what waits for a server: a page of it, and how much it is.
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
	Activity    string    `json:"activity"`
	Type        string    `json:"type,omitempty"`
	KeyID       string    `json:"keyId,omitempty"`
	Inbox       string    `json:"inbox"`
	Attempts    int       `json:"attempts"`
	OrderingKey string    `json:"orderingKey,omitempty"`
	Since       time.Time `json:"since"`
	GiveUpAt    time.Time `json:"giveUpAt"`
}

// WaitingInAll is how many deliveries wait for servers. AtLeast is true if there are more
// than Count.
type WaitingInAll struct {
	Count   int  `json:"count"`
	AtLeast bool `json:"atLeast"`
}
