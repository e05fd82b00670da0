package contract

import "time"

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
	// Secret is shown once, to whom fedpost has made it for.
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

// WebhookTest is the answer to POST /v1/webhooks/{id}/test.
type WebhookTest struct {
	// ID of the activity that takes the test event to the webhook.
	ID string `json:"id"`
}
