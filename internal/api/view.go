package api

import (
	"time"

	"fedpost/internal/activity"
)

// View is an activity as clients see it.
type View struct {
	ID         activity.ID            `json:"id"`
	Status     string                 `json:"status"` // queued, delivering, done or cancelled
	Counts     map[activity.State]int `json:"counts"`
	Recipients []RecipientView        `json:"recipients"`
	NextCursor string                 `json:"nextCursor,omitempty"`
}

// RecipientView is one inbox of an activity as clients see it.
type RecipientView struct {
	Inbox string         `json:"inbox"`
	State activity.State `json:"state"`
	// Recipients is how many the inbox stands for.
	Recipients    int         `json:"recipients"`
	Attempts      int         `json:"attempts"`
	LastStatus    int         `json:"lastStatus,omitempty"`
	LastError     string      `json:"lastError,omitempty"`
	Response      string      `json:"response,omitempty"`
	Note          string      `json:"note,omitempty"`
	NextAttemptAt time.Time   `json:"nextAttemptAt,omitzero"`
	UpdatedAt     time.Time   `json:"updatedAt,omitzero"`
	By            activity.ID `json:"by,omitempty"`
}
