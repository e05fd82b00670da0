// Package client talks to fedpost's HTTP API as any server that hands it
// activities would. The command line, the demo and the end-to-end tests use it,
// so what they see is what a user sees: no back door into the engine.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Client is a client of one fedpost.
type Client struct {
	// Base is the server's address, such as http://127.0.0.1:8080.
	Base string
	// Token is sent as Bearer token if it is not empty.
	Token string
	HTTP  *http.Client
}

// Problem is an error answer of the API (RFC 9457).
type Problem struct {
	Type       string        `json:"type"`
	Title      string        `json:"title"`
	Status     int           `json:"status"`
	Detail     string        `json:"detail"`
	Errors     []Fault       `json:"errors"`
	RetryAfter time.Duration `json:"-"`
}

// Fault is what is wrong with one field.
type Fault struct {
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

func (p *Problem) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "fedpost answered %d %s", p.Status, p.Title)
	if p.Detail != "" {
		fmt.Fprintf(&b, ": %s", p.Detail)
	}
	for _, f := range p.Errors {
		if strings.Contains(p.Detail, f.Detail) {
			continue // it tells of the first, as most have only one
		}
		fmt.Fprintf(&b, "; %s: %s", f.Pointer, f.Detail)
	}
	return b.String()
}

// Submission is the body of POST /v1/activities. Activity is sent as it is,
// byte for byte.
type Submission struct {
	Activity          json.RawMessage `json:"-"`
	Recipients        []any           `json:"recipients"` // strings or Recipient
	KeyID             string          `json:"keyId,omitempty"`
	Protocol          string          `json:"protocol,omitempty"`
	Job               string          `json:"job,omitempty"`
	ServerURL         string          `json:"serverUrl,omitempty"`
	Payload           string          `json:"payload,omitempty"`
	DeduplicationKey  string          `json:"deduplicationKey,omitempty"`
	DeduplicationTTL  string          `json:"deduplicationTtl,omitempty"`
	OrderingKey       string          `json:"orderingKey,omitempty"`
	Delay             string          `json:"delay,omitempty"`
	Priority          string          `json:"priority,omitempty"`
	ExpiresIn         string          `json:"expiresIn,omitempty"`
	PreferSharedInbox *bool           `json:"preferSharedInbox,omitempty"`
	Coalesce          string          `json:"coalesce,omitempty"`
}

// Recipient is a recipient with the shared inbox of its server.
type Recipient struct {
	Inbox       string `json:"inbox"`
	SharedInbox string `json:"sharedInbox,omitempty"`
}

// Accepted is the answer to a submission.
type Accepted struct {
	ID         string `json:"id"`
	Status     string `json:"status"` // queued or duplicate
	Recipients int    `json:"recipients"`
}

// Status is the answer to GET /v1/activities/{id}.
type Status struct {
	ID         string            `json:"id"`
	Status     string            `json:"status"`
	Counts     map[string]int    `json:"counts"`
	Recipients []RecipientStatus `json:"recipients"`
	NextCursor string            `json:"nextCursor"`
}

// RecipientStatus is what has become of one inbox.
type RecipientStatus struct {
	Inbox         string    `json:"inbox"`
	State         string    `json:"state"`
	Attempts      int       `json:"attempts"`
	LastStatus    int       `json:"lastStatus"`
	LastError     string    `json:"lastError"`
	NextAttemptAt time.Time `json:"nextAttemptAt"`
}

// Key is the public half of a signing key.
type Key struct {
	ID           string `json:"id"`
	Type         string `json:"type"`
	PublicKeyPEM string `json:"publicKeyPem"`
}

// Submit enqueues one activity.
func (c *Client) Submit(ctx context.Context, s Submission) (Accepted, error) {
	body, err := s.encode()
	if err != nil {
		return Accepted{}, err
	}
	var a Accepted
	return a, c.Do(ctx, http.MethodPost, "/v1/activities", body, &a)
}

// encode splices the activity's bytes into the request: encoding/json would
// compact a RawMessage, and the signature's digest is over these bytes.
func (s Submission) encode() ([]byte, error) {
	rest, err := encode(s)
	if err != nil || s.Activity == nil {
		return rest, err
	}
	body := append([]byte(`{"activity":`), s.Activity...)
	body = append(body, ',')
	return append(body, rest[1:]...), nil
}

// encode is json.Marshal without the escaping of <, > and &.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	return b.Bytes(), nil
}

// Activity returns the status of an activity, one page of recipients from cursor.
func (c *Client) Activity(ctx context.Context, id, cursor string) (Status, error) {
	path := "/v1/activities/" + url.PathEscape(id)
	if cursor != "" {
		path += "?cursor=" + url.QueryEscape(cursor)
	}
	var s Status
	return s, c.Do(ctx, http.MethodGet, path, nil, &s)
}

// GenerateKey makes a key on the server.
func (c *Client) GenerateKey(ctx context.Context, id, kind string) (Key, error) {
	body, err := encode(map[string]string{"id": id, "type": kind})
	if err != nil {
		return Key{}, err
	}
	var k Key
	return k, c.Do(ctx, http.MethodPost, "/v1/keys", body, &k)
}

// PutKey stores a private key, PEM, under an id.
func (c *Client) PutKey(ctx context.Context, id, privatePEM string) (Key, error) {
	body, err := encode(map[string]string{"privateKeyPem": privatePEM})
	if err != nil {
		return Key{}, err
	}
	var k Key
	return k, c.Do(ctx, http.MethodPut, "/v1/keys/"+url.PathEscape(id), body, &k)
}

// Do makes one call and reads its JSON answer into out (nil: not read). An
// answer of 400 or above is a *Problem.
func (c *Client) Do(ctx context.Context, method, path string, body []byte, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, c.Base+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	hc := c.HTTP
	if hc == nil {
		hc = http.DefaultClient
	}
	resp, err := hc.Do(req)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("%s %s: read answer: %w", method, path, err)
	}
	if resp.StatusCode >= 400 {
		return problem(resp, answer)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("%s %s: answer is not the JSON that was expected: %w", method, path, err)
	}
	return nil
}

func problem(resp *http.Response, body []byte) error {
	p := &Problem{Status: resp.StatusCode, Title: http.StatusText(resp.StatusCode)}
	if err := json.Unmarshal(body, p); err != nil {
		p.Detail = strings.TrimSpace(string(body[:min(len(body), 300)]))
	}
	if d, err := time.ParseDuration(resp.Header.Get("Retry-After") + "s"); err == nil {
		p.RetryAfter = d
	}
	return p
}
