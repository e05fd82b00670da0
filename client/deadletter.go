package client

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// DeadLetter is a delivery that was given up, without the activity's body, which
// may be confidential and is large.
type DeadLetter struct {
	ID             string `json:"id"`
	Activity       string `json:"activity"`
	Protocol       string `json:"protocol"`
	Type           string `json:"type,omitempty"`
	Job            string `json:"job,omitempty"`
	Inbox          string `json:"inbox"`
	CanonicalInbox string `json:"canonicalInbox,omitempty"` // as in RecipientStatus
	Host           string `json:"host"`
	Recipients     int    `json:"recipients,omitempty"` // if more than one
	Reason         string `json:"reason"`
	Attempts       int    `json:"attempts"`
	LastStatus     int    `json:"lastStatus,omitempty"`
	// LastError and Response are cut to 1 KiB and hold no control characters.
	LastError string          `json:"lastError,omitempty"`
	Response  string          `json:"response,omitempty"`
	DiedAt    time.Time       `json:"diedAt"`
	Metadata  json.RawMessage `json:"metadata,omitempty"` // of the Submission
}

// LastAnswer is what its server answered last, or why there was no answer.
func (d DeadLetter) LastAnswer() string {
	number := strconv.Itoa(d.LastStatus)
	switch {
	case d.LastStatus == 0 && d.LastError == "":
		return d.Reason
	case d.LastStatus == 0 || strings.Contains(d.LastError, number):
		return d.LastError
	}
	return strings.TrimSpace(number + " " + d.LastError)
}

// LastAnswers counts the last answers of dead letters: "63 × 503 Service Unavailable". The
// commonest come first, up to five.
func LastAnswers(all []DeadLetter) []string {
	n := map[string]int{}
	for _, d := range all {
		n[d.LastAnswer()]++
	}
	answers := slices.SortedFunc(maps.Keys(n), func(a, b string) int { return cmp.Or(n[b]-n[a], strings.Compare(a, b)) })
	rest := answers[min(len(answers), 5):]
	answers = answers[:len(answers)-len(rest)]
	for i, a := range answers {
		answers[i] = fmt.Sprintf("%d × %s", n[a], a)
	}
	if len(rest) > 0 {
		answers = append(answers, fmt.Sprintf("%d other answers", len(rest)))
	}
	return answers
}

// DeadLetters is a page of dead letters.
type DeadLetters struct {
	DeadLetters []DeadLetter `json:"deadLetters"`
	NextCursor  string       `json:"nextCursor,omitempty"`
}

// Selection selects the dead letters that match all fields that are set.
type Selection struct {
	ID       string    `json:"id,omitempty"`
	Host     string    `json:"host,omitempty"`
	Activity string    `json:"activity,omitempty"`
	Type     string    `json:"type,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Limit    int       `json:"limit,omitempty"`
	// Failed also selects recipients that have failed, which have no dead letters. Cursor continues
	// such a request.
	Failed bool   `json:"failed,omitempty"`
	Cursor string `json:"cursor,omitempty"`
}

// query is s as query parameters, with a limit unless that is empty.
func (s Selection) query(limit string) url.Values {
	return queryOf("limit", limit, "id", s.ID, "host", s.Host, "activity", s.Activity, "type", s.Type, "since", timeOf(s.Since))
}

// Retried is the answer to a Selection.
type Retried struct {
	Retried int  `json:"retried"`
	More    bool `json:"more"` // more dead letters match: repeat the request
	// NextCursor, if not empty, is the Cursor of the repeated request.
	NextCursor string `json:"nextCursor,omitempty"`
}

// Dropped is the answer to DELETE /v1/dead-letters.
type Dropped struct {
	Dropped int  `json:"dropped"`
	More    bool `json:"more"` // more dead letters may match: repeat the request
}

// DeadLetters lists the dead letters that match s, s.Limit at most (0: all).
func (c *Client) DeadLetters(ctx context.Context, s Selection) iter.Seq2[DeadLetter, error] {
	return pages[DeadLetter](ctx, c, "/v1/dead-letters", s.query(""), "deadLetters", s.Limit, 200)
}

// RetryDeadLetters sends the dead letters that match s anew, s.Limit of them at most (0: 1,000).
// One that is being sent already is skipped.
func (c *Client) RetryDeadLetters(ctx context.Context, s Selection) (Retried, error) {
	return send[Retried](ctx, c, request{method: http.MethodPost, path: "/v1/dead-letters/retry", in: s, harmless: true})
}

// DropDeadLetters drops the dead letters that match s, s.Limit of them at most (0: 1,000).
func (c *Client) DropDeadLetters(ctx context.Context, s Selection) (Dropped, error) {
	query := s.query(numberOf(s.Limit))
	return send[Dropped](ctx, c, request{method: http.MethodDelete, path: "/v1/dead-letters", query: query})
}
