package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Server is a server as the registry shows it.
type Server struct {
	Server      string     `json:"server"`
	Protocol    string     `json:"protocol"`
	Phase       string     `json:"phase"`
	Since       time.Time  `json:"since"`
	Until       time.Time  `json:"until"`
	Reason      string     `json:"reason"`
	Why         string     `json:"why"`
	DownSince   time.Time  `json:"downSince"`
	Failures    int        `json:"failuresInARow"`
	Checks      int        `json:"failedChecks"`
	NextCheckAt time.Time  `json:"nextCheckAt"`
	Parked      bool       `json:"parked"`
	RateLimit   *RateLimit `json:"rateLimit"`
	Keys        *Keys      `json:"keys"`
	RefusedKeys *Keys      `json:"refusedKeys"`
	LastSeen    time.Time  `json:"lastSeen"`
}

// RateLimit is how many deliveries a minute a server gets.
type RateLimit struct {
	PerMinute int  `json:"perMinute"`
	Burst     int  `json:"burst,omitempty"`
	Learnt    bool `json:"learnt,omitempty"`
}

// Keys are a Sipher server's public keys.
type Keys struct {
	Signing    string `json:"publicKey"`
	Encryption string `json:"encryptionPublicKey"`
}

// DeadLetter is a delivery that was given up.
type DeadLetter struct {
	ID         string    `json:"id"`
	Activity   string    `json:"activity"`
	Type       string    `json:"type"`
	Job        string    `json:"job"`
	Inbox      string    `json:"inbox"`
	Host       string    `json:"host"`
	Reason     string    `json:"reason"`
	Attempts   int       `json:"attempts"`
	LastStatus int       `json:"lastStatus"`
	LastError  string    `json:"lastError"`
	DiedAt     time.Time `json:"diedAt"`
}

// Selection says which dead letters are meant; what is empty is not asked for.
type Selection struct {
	ID       string    `json:"id,omitempty"`
	Host     string    `json:"host,omitempty"`
	Activity string    `json:"activity,omitempty"`
	Type     string    `json:"type,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Limit    int       `json:"limit,omitempty"`
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

// Retried is the answer to a retry of dead letters.
type Retried struct {
	Retried int  `json:"retried"`
	More    bool `json:"more"`
}

// Stats are the state of things.
type Stats struct {
	At        time.Time             `json:"at"`
	Queues    map[string]QueueDepth `json:"queues"`
	Counts    map[string]int        `json:"counts"`
	Servers   map[string]int        `json:"servers"`
	Unhealthy []Server              `json:"unhealthyServers"`
}

// QueueDepth is how much is on a queue.
type QueueDepth struct {
	Visible  int  `json:"visible"`
	InFlight int  `json:"inFlight"`
	Delayed  int  `json:"delayed"`
	Oldest   *int `json:"oldestSeconds"`
}

// ServerPath is the path of a server: a host, "inbox:" and an inbox's URL, or a
// Sipher server's URL.
func ServerPath(name string) string { return "/v1/servers/" + url.PathEscape(name) }

// RetryDeadLetters sends dead letters anew.
func (c *Client) RetryDeadLetters(ctx context.Context, s Selection) (Retried, error) {
	body, err := encode(s)
	if err != nil {
		return Retried{}, err
	}
	var r Retried
	return r, c.Do(ctx, http.MethodPost, "/v1/dead-letters/retry", body, &r)
}

// List follows the pages of a list until it has limit entries or all there are,
// and returns them as they came. field is the list's name in the answer, and
// most the largest page that the route gives.
func (c *Client) List(ctx context.Context, path string, query url.Values, field string, limit, most int) ([]json.RawMessage, error) {
	all := []json.RawMessage{}
	for len(all) < limit {
		query.Set("limit", strconv.Itoa(min(limit-len(all), most)))
		var page map[string]json.RawMessage
		if err := c.Do(ctx, http.MethodGet, path+"?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		var entries []json.RawMessage
		if err := json.Unmarshal(page[field], &entries); err != nil {
			return nil, fmt.Errorf("GET %s: the answer has no list %q: %w", path, field, err)
		}
		all = append(all, entries...)
		var next string
		if raw, ok := page["nextCursor"]; ok {
			if err := json.Unmarshal(raw, &next); err != nil {
				return nil, fmt.Errorf("GET %s: nextCursor: %w", path, err)
			}
		}
		if next == "" {
			break
		}
		query.Set("cursor", next)
	}
	return all, nil
}
