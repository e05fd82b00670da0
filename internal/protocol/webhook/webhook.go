// Package webhook delivers events to URLs of the operator, as fedpost's own third protocol:
// with the retries, parking and dead letters that all deliveries have.
//
// Requests are signed as Standard Webhooks has it (https://www.standardwebhooks.com), so
// that receivers verify them with a library that others wrote. No caller of the API may
// ask for a delivery by this protocol, and a webhook's own deliveries make no events.
//
// A Pump follows the feed of events with one cursor per webhook, and hands over what is
// new. An activity's id follows from its webhook and event, so a pump that dies between
// handing over and saving its cursor hands over the same activity again, which is sent
// once. A request with several events may come again with other neighbours; receivers know
// events by their ids, as Standard Webhooks asks of them.
package webhook

import (
	"context"
	"errors"
	"slices"
	"time"

	"fedpost/internal/activity"
)

// Name is the protocol's.
const Name activity.Protocol = "webhook"

// Webhook is an URL that gets events.
type Webhook struct {
	ID  string `json:"id"`
	URL string `json:"url"`
	// Types of events that it gets; none: all.
	Types []string `json:"types,omitempty"`
	// Batch: up to MostInRequest events come in one request.
	Batch bool `json:"batch,omitempty"`
	// Secrets that requests are signed with, the present one first.
	Secrets   []Secret  `json:"secrets"`
	CreatedAt time.Time `json:"created"`

	// Cursor is how far the feed was handed over.
	Cursor string `json:"cursor"`
	// FailingSince is when it first refused a request since it took one; zero: it has not.
	FailingSince time.Time `json:"failing,omitzero"`
	LastError    string    `json:"error,omitempty"`
	// DisabledAt is when it was disabled because it failed for too long; zero: it is not.
	DisabledAt time.Time `json:"disabled,omitzero"`
	// Anew, if not zero, is in the ids of what is handed over since it got anew what it had
	// missed. What was handed over before Anew is not sent any more.
	Anew time.Time `json:"anew,omitzero"`

	// Version fences saves; empty if it is new.
	Version string `json:"-"`
}

// Secret is a secret as it is kept.
type Secret struct {
	Sealed []byte `json:"sealed"`
	// Until is when it ends, because another one has replaced it; zero: it is the present
	// one.
	Until time.Time `json:"until,omitzero"`
}

const (
	// MostInRequest is how many events a request has at most.
	MostInRequest = 100
	// MostWebhooks is how many webhooks there may be.
	MostWebhooks = 20
	// Overlap is how long requests are signed with the former secret, too.
	Overlap = 24 * time.Hour
	// GiveUp is for how long a webhook may fail before it is disabled, and for how long
	// a delivery to it is tried.
	GiveUp = 5 * 24 * time.Hour
)

// Errors of a Store.
var (
	ErrNotFound = errors.New("no such webhook")
	// ErrChanged says that a webhook was saved by another since it was read.
	ErrChanged = errors.New("webhook has changed")
	// ErrTooMany says that there are MostWebhooks already.
	ErrTooMany = errors.New("too many webhooks")
)

// Store keeps webhooks.
type Store interface {
	// Webhooks lists all, by id.
	Webhooks(ctx context.Context) ([]Webhook, error)
	// Webhook returns one, or ErrNotFound.
	Webhook(ctx context.Context, id string) (Webhook, error)
	// SaveWebhook writes w and returns it with its new version. If the stored version is
	// not w.Version it returns ErrChanged.
	SaveWebhook(ctx context.Context, w Webhook) (Webhook, error)
	// DisableWebhook is SaveWebhook of one that is disabled, with an event of that in the
	// same transaction.
	DisableWebhook(ctx context.Context, w Webhook) (Webhook, error)
	// DeleteWebhook removes one, or returns ErrNotFound.
	DeleteWebhook(ctx context.Context, id string) error
}

// Wants reports whether w gets events of a type.
func (w Webhook) Wants(kind string) bool { return len(w.Types) == 0 || slices.Contains(w.Types, kind) }

// changeTries bounds how often Change starts over.
const changeTries = 10

// Change applies f to a webhook and saves it, again each time that another has saved it in
// between. If f returns false, nothing is saved.
func Change(ctx context.Context, s Store, id string, f func(*Webhook) bool) error {
	for range changeTries {
		w, err := s.Webhook(ctx, id)
		if err != nil || !f(&w) {
			return err
		}
		if _, err = s.SaveWebhook(ctx, w); !errors.Is(err, ErrChanged) {
			return err
		}
	}
	return ErrChanged
}
