// Package client is a client of fedpost's HTTP API. The command line, the demo and the
// end-to-end tests use it, so they see what a user sees, without a back door into the
// engine.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"fedpost/internal/api/contract"
)

// Client is a client of one installation of fedpost.
type Client struct {
	// Base is the server's address, such as http://127.0.0.1:8080.
	Base string
	// Token is sent as Bearer token if it is not empty.
	Token string
	HTTP  *http.Client
}

// ErrNoAnswer says that nothing answered a call, or not as HTTP has it.
var ErrNoAnswer = errors.New("no answer from fedpost")

// Submit enqueues one activity.
func (c *Client) Submit(ctx context.Context, s Submission) (Accepted, error) {
	body, err := s.Encode()
	if err != nil {
		return Accepted{}, err
	}
	var a Accepted
	return a, c.Do(ctx, http.MethodPost, "/v1/activities", body, &a)
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
	body, err := contract.Encode(NewKey{ID: id, Type: kind})
	if err != nil {
		return Key{}, err
	}
	var k Key
	return k, c.Do(ctx, http.MethodPost, "/v1/keys", body, &k)
}

// PutKey stores a private key, PEM, under an id.
func (c *Client) PutKey(ctx context.Context, id, privatePEM string) (Key, error) {
	body, err := contract.Encode(PrivateKey{PrivateKeyPEM: privatePEM})
	if err != nil {
		return Key{}, err
	}
	var k Key
	return k, c.Do(ctx, http.MethodPut, "/v1/keys/"+url.PathEscape(id), body, &k)
}

// Do makes one call and reads the JSON answer into out; nil: the answer is not read. If
// the status is 400 or above, the error is a *Problem.
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
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err // u repeats the method and the address
	}
	if err != nil {
		return fmt.Errorf("%w at %s: %w", ErrNoAnswer, c.Base, err)
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
	return fmt.Errorf("fedpost answered %w", p)
}
