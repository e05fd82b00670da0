package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Webhook is a URL that gets events. Its secret is not shown.
type Webhook struct {
	ID    string   `json:"id"`
	URL   string   `json:"url"`
	Types []string `json:"types,omitempty"` // none: all
	// Batch: a request has up to 100 events.
	Batch bool `json:"batch"`
	// State is WebhookEnabled, WebhookFailing or WebhookDisabled.
	State        string    `json:"state"`
	CreatedAt    time.Time `json:"createdAt"`
	FailingSince time.Time `json:"failingSince,omitzero"`
	LastError    string    `json:"lastError,omitempty"`
	DisabledAt   time.Time `json:"disabledAt,omitzero"`
	// Secret is set only in the answer to the call that made it.
	Secret string `json:"secret,omitempty"`
}

// The states of a webhook.
const (
	WebhookEnabled  = "enabled"
	WebhookFailing  = "failing"
	WebhookDisabled = "disabled"
)

// Webhooks lists all webhooks.
type Webhooks struct {
	Webhooks []Webhook `json:"webhooks"`
}

// WebhookSettings is the body of PUT /v1/webhooks/{id}.
type WebhookSettings struct {
	URL          string   `json:"url"`
	Types        []string `json:"types,omitempty"`
	Batch        bool     `json:"batch,omitempty"`
	Secret       string   `json:"secret,omitempty"`
	RotateSecret bool     `json:"rotateSecret,omitempty"`
}

// TestDelivery is the answer to POST /v1/webhooks/{id}/test.
type TestDelivery struct {
	// ID of the activity that takes the test event to the webhook.
	ID string `json:"id"`
	// State is that of the delivery after at most 10 s. Status is the receiver's, 0 if it did not
	// answer; Error and Response say more.
	State    string `json:"state"`
	Status   int    `json:"lastStatus,omitempty"`
	Error    string `json:"lastError,omitempty"`
	Response string `json:"response,omitempty"`
}

func webhookPath(id string) string { return "/v1/webhooks/" + url.PathEscape(id) }

// Webhooks lists all webhooks, 20 at most.
func (c *Client) Webhooks(ctx context.Context) ([]Webhook, error) {
	all, err := get[Webhooks](ctx, c, "/v1/webhooks", nil)
	return all.Webhooks, err
}

// Webhook returns what is known of a webhook.
func (c *Client) Webhook(ctx context.Context, id string) (Webhook, error) {
	return get[Webhook](ctx, c, webhookPath(id), nil)
}

// PutWebhook makes a webhook or changes it as a whole. The answer has the secret if fedpost
// has made it with this call.
func (c *Client) PutWebhook(ctx context.Context, id string, s WebhookSettings) (Webhook, error) {
	// If this call made a secret, its repetition would make another.
	return send[Webhook](ctx, c, request{method: http.MethodPut, path: webhookPath(id), in: s, harmless: s.Secret != ""})
}

// DeleteWebhook deletes a webhook, and drops what waits for it.
func (c *Client) DeleteWebhook(ctx context.Context, id string) error {
	return c.do(ctx, request{method: http.MethodDelete, path: webhookPath(id)}, nil)
}

// TestWebhook sends a test event, and says what the receiver has answered.
func (c *Client) TestWebhook(ctx context.Context, id string) (TestDelivery, error) {
	return send[TestDelivery](ctx, c, request{method: http.MethodPost, path: webhookPath(id) + "/test"})
}

// ErrWebhook says that a request did not come from fedpost: its signature is not made with the
// secret, or is more than 5 minutes old.
var ErrWebhook = errors.New("not a webhook of fedpost")

// maxWebhook is the most bytes that are read of a webhook: 100 events of 20 KiB.
const maxWebhook = 2 << 20

// ReadWebhook checks the signature of a webhook (Standard Webhooks) and returns its events,
// one or a batch. The secret is that of PutWebhook, whsec_…. Answer 2xx once the events are
// handled, and 401 to ErrWebhook. An event may come twice, with the same ID.
// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
func ReadWebhook(r *http.Request, secret string) ([]Event, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.TrimSpace(secret), "whsec_"))
	if err != nil || len(key) == 0 {
		// Anybody can sign with an empty key.
		return nil, errors.New("the secret of a webhook is whsec_ and base64: is the setting that holds it empty?")
	}
	verifier, err := standardwebhooks.NewWebhookRaw(key)
	if err != nil {
		return nil, fmt.Errorf("secret of a webhook: %w", err)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxWebhook+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read webhook: %w", err)
	case len(body) > maxWebhook:
		return nil, fmt.Errorf("%w: over %d bytes", ErrWebhook, maxWebhook)
	}
	if err := verifier.Verify(body, r.Header); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrWebhook, err)
	}
	var got struct {
		Event
		Events []Event `json:"events"`
	}
	if err := json.Unmarshal(body, &got); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrWebhook, err)
	}
	if got.Events == nil {
		return []Event{got.Event}, nil
	}
	return got.Events, nil
}
