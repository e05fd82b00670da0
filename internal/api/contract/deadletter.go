package contract

import (
	"net/url"
	"time"
)

// DeadLetter is a delivery that was given up, without the activity's body, which
// may be confidential and is large.
type DeadLetter struct {
	ID         string `json:"id"`
	Activity   string `json:"activity"`
	Protocol   string `json:"protocol"`
	Type       string `json:"type,omitempty"`
	Job        string `json:"job,omitempty"`
	Inbox      string `json:"inbox"`
	Host       string `json:"host"`
	Recipients int    `json:"recipients,omitempty"` // if more than one
	Reason     string `json:"reason"`
	Attempts   int    `json:"attempts"`
	LastStatus int    `json:"lastStatus,omitempty"`
	// LastError and Response are cut to 1 KiB and hold no control characters.
	LastError string    `json:"lastError,omitempty"`
	Response  string    `json:"response,omitempty"`
	DiedAt    time.Time `json:"diedAt"`
}

// DeadLetters is a page of dead letters.
type DeadLetters struct {
	DeadLetters []DeadLetter `json:"deadLetters"`
	NextCursor  string       `json:"nextCursor,omitempty"`
}

// Selection is the body of POST /v1/dead-letters/retry. It selects the dead letters that
// match all fields that are set. Limit 0 is 1,000.
type Selection struct {
	ID       string    `json:"id,omitempty"`
	Host     string    `json:"host,omitempty"`
	Activity string    `json:"activity,omitempty"`
	Type     string    `json:"type,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Limit    int       `json:"limit,omitempty"`
	// Failed asks for recipients that have failed, too, which have no dead letters. Cursor
	// goes on where the answer to such a request has stopped.
	Failed bool   `json:"failed,omitempty"`
	Cursor string `json:"cursor,omitempty"`
}

// Query is s as query parameters, without the limit.
func (s Selection) Query() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{"id": s.ID, "host": s.Host, "activity": s.Activity, "type": s.Type} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if !s.Since.IsZero() {
		q.Set("since", s.Since.UTC().Format(time.RFC3339))
	}
	return q
}

// Retried is the answer to a Selection.
type Retried struct {
	Retried int  `json:"retried"`
	More    bool `json:"more"` // more dead letters match: repeat the request
	// NextCursor, if not empty, belongs into the request that is repeated.
	NextCursor string `json:"nextCursor,omitempty"`
}

// Dropped is the answer to DELETE /v1/dead-letters.
type Dropped struct {
	Dropped int  `json:"dropped"`
	More    bool `json:"more"` // more dead letters may match: repeat the request
}
