package ledger

import (
	"context"
	"time"

	"fedpost/internal/activity"
)

// Listed is an activity in a list: the properties by which it is found. The names in its tags
// are stored.
type Listed struct {
	ID activity.ID `json:"-"`
	// ActivityID is the activity's own id, as its author wrote it; may be empty.
	ActivityID string `json:"id,omitempty"`
	// Sender is the actor or, if the activity is forwarded for another, the owner of its
	// key. Actor is what the activity says.
	Sender string `json:"sender,omitempty"`
	Actor  string `json:"actor,omitempty"`
	Type   string `json:"type,omitempty"`
	KeyID  string `json:"keyId,omitempty"`
	// Object is the id of what the activity is about; may be empty.
	Object string `json:"object,omitempty"`
	// Bytes is the length of its body; 0: not known.
	Bytes     int       `json:"bytes,omitempty"`
	CreatedAt time.Time `json:"-"`
	// Forget is when the table may drop it from all lists.
	Forget time.Time `json:"-"`
	// Cursor goes on after this activity. It is set by FindActivities.
	Cursor string `json:"-"`
}

// Sought selects activities: by ID, by ActivityID, or by Sender and Since together. A zero Since
// is SoughtBack ago.
type Sought struct {
	ID         activity.ID
	ActivityID string
	Sender     string
	Since      time.Time
}

// Bounds of a search by time.
const (
	// SoughtBack is how far back a search without a beginning goes.
	SoughtBack = 7 * 24 * time.Hour
	// LongestBack is how far back any search goes.
	LongestBack = 60 * 24 * time.Hour
)

type Index interface {
	// ListActivities puts activities on the lists: one write unit each for the list of
	// their day, and one for that of their own id, if they have one.
	// Repeating it is harmless.
	ListActivities(ctx context.Context, ls []Listed) error
	// FindActivities returns up to limit activities after a cursor: by their own id in
	// the order of their creation, else the last first. A page may be shorter, even empty,
	// and not be the last: each call reads a bounded amount. One that is sought by ID is
	// found if it is on a list. The error wraps ErrBadCursor.
	FindActivities(ctx context.Context, s Sought, cursor string, limit int) (ls []Listed, next string, err error)
}
