package client

import "fedpost/internal/api/contract"

// The types of package contract, so that callers of this package need one import.
type (
	Problem         = contract.Problem
	Submission      = contract.Submission
	Recipient       = contract.Recipient
	Header          = contract.Header
	Accepted        = contract.Accepted
	Status          = contract.Status
	Cancelled       = contract.Cancelled
	RecipientStatus = contract.RecipientStatus
	NewKey          = contract.NewKey
	PrivateKey      = contract.PrivateKey
	Key             = contract.Key
	StoredKey       = contract.StoredKey
	DeletedKey      = contract.DeletedKey
	Dropped         = contract.Dropped
	Server          = contract.Server
	Waiting         = contract.Waiting
	RateLimit       = contract.RateLimit
	DeadLetter      = contract.DeadLetter
	Selection       = contract.Selection
	Retried         = contract.Retried
	Retry           = contract.Retry
	RetriedActivity = contract.RetriedActivity
	Stats           = contract.Stats
	History         = contract.History
	Event           = contract.Event
	Events          = contract.Events
	Webhook         = contract.Webhook
	Webhooks        = contract.Webhooks
	WebhookSettings = contract.WebhookSettings
	WebhookTest     = contract.WebhookTest
	Duration        = contract.Duration
)

// To returns inboxes as recipients.
func To(inboxes ...string) []Recipient { return contract.To(inboxes...) }
