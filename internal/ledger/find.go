package ledger

import (
	"context"
	"time"

	"fedpost/internal/activity"
)

// Listed is an activity as lists of activities have it: what it says of itself, by which
// it is found.
type Listed struct {
	ID activity.ID
	// ActivityID is the activity's own id, by which its author knows it; may be empty.
	ActivityID string
	// Sender is the actor or, if the activity is forwarded for another, the owner of its
	// key. Actor is what the activity says.
	Sender, Actor string
	Type, KeyID   string
	CreatedAt     time.Time
	// Forget is when the table may drop it from all lists.
	Forget time.Time
}

// Sought says which activities are looked for. ActivityID stands for itself; Sender and
// Since select those that match both, Since being zero for Finder's default.
type Sought struct {
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

// Index finds activities.
type Index interface {
	// ListActivities puts activities on the lists: one write unit each for the list of
	// their sender and day, and one for that of their own id, if they have one.
	// Repeating it is harmless.
	ListActivities(ctx context.Context, ls []Listed) error
	// FindActivities returns up to limit activities after a cursor: by their own id in
	// the order of their creation; else day by day, the last first, and within a day one
	// sender's from the last to the first. A page may be shorter, even empty, and not be
	// the last: each call reads a bounded amount. The error wraps ErrBadCursor.
	FindActivities(ctx context.Context, s Sought, cursor string, limit int) (ls []Listed, next string, err error)
}
