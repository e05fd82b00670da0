package contract

import (
	"time"

	"fedpost/internal/ledger/events"
)

// Event is one entry of the feed of events. Fields that do not apply are left out.
type Event struct {
	ID         string      `json:"id"`
	Type       events.Kind `json:"type"`
	Time       time.Time   `json:"time"`
	ActivityID string      `json:"activityId,omitempty"`
	Activity   *About      `json:"activity,omitempty"`
	Inbox      string      `json:"inbox,omitempty"`
	Host       string      `json:"host,omitempty"`
	Status     int         `json:"status,omitempty"`
	Reason     string      `json:"reason,omitempty"`
	Count      int         `json:"count,omitempty"`
	Since      time.Time   `json:"since,omitzero"`
}

// About is what an activity says of itself.
type About struct {
	ID    string `json:"id,omitempty"`
	Type  string `json:"type,omitempty"`
	Actor string `json:"actor,omitempty"`
}

// Events is a page of the feed. Next is the cursor behind it, and is never empty.
type Events struct {
	Events []Event `json:"events"`
	Next   string  `json:"next"`
	// More is true if there is more to read at once.
	More bool `json:"more"`
	// RetryAfter is how many seconds a reader waits before it asks again who has asked to wait,
	// and was answered at once, without events, because too many wait already. 0: not at all.
	RetryAfter int `json:"retryAfter,omitempty"`
}

// EventOf is an event as readers get it, from the feed and in a webhook alike.
func EventOf(e events.Event) Event {
	shown := Event{
		ID: e.ID, Type: e.Kind, Time: e.Time, ActivityID: string(e.ActivityID), Inbox: e.Inbox, Host: e.Host,
		Status: e.Status, Reason: e.Reason, Count: e.Count, Since: e.Since,
	}
	if e.About != (events.About{}) {
		shown.Activity = &About{ID: e.About.ID, Type: e.About.Type, Actor: e.About.Actor}
	}
	return shown
}
