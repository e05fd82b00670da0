// Package webhook delivers events to URLs of the operator, as fedpost's third protocol, with the
// retries, parking and dead letters of all deliveries.
//
// Requests are signed as Standard Webhooks (https://www.standardwebhooks.com) says, so that
// receivers can verify them with existing libraries. Callers of the API cannot ask for this
// protocol, and its own deliveries make no events.
//
// A Pump follows the feed of events with one cursor per webhook. An activity's id follows from its
// webhook and event, so a pump that dies before it saves its cursor queues the same activity
// again, which is sent once. A request with several events may be repeated with others; receivers
// recognize events by their ids, as Standard Webhooks demands.
package webhook

import (
	"context"
	"errors"
	"slices"
	"time"

	"fedpost/internal/activity"
)

const Name activity.Protocol = "webhook"

// Webhook is a URL that gets events.
type Webhook struct {
	ID  string `json:"id"`
	URL string `json:"url"`
	// Types are those of the events that it gets; none: all.
	Types []string `json:"types,omitempty"`
	// Batch: a request has up to MostInRequest events.
	Batch bool `json:"batch,omitempty"`
	// Secrets sign requests, the present one first.
	Secrets   []Secret  `json:"secrets"`
	CreatedAt time.Time `json:"created"`

	// Cursor is after the last event that was queued.
	Cursor string `json:"cursor"`
	// FailingSince is when the first request failed since the last success; zero: none has.
	FailingSince time.Time `json:"failing,omitzero"`
	LastError    string    `json:"error,omitempty"`
	// DisabledAt is when it was disabled because it failed for GiveUp; zero: it is not.
	DisabledAt time.Time `json:"disabled,omitzero"`
	// Anew is when it last was disabled, or began to fail before its URL was changed; zero: never.
	// What was queued before Anew is not sent, and the ids of later requests contain it.
	Anew time.Time `json:"anew,omitzero"`

	// Version fences saves; empty if it is new.
	Version string `json:"-"`
}

// Secret is a secret as it is kept.
type Secret struct {
	Sealed []byte `json:"sealed"`
	// Until is when it ends, because another has replaced it; zero: it is the present one.
	Until time.Time `json:"until,omitzero"`
}

const (
	// MostInRequest is how many events a request has at most.
	MostInRequest = 100
	// MostWebhooks is how many webhooks there may be.
	MostWebhooks = 20
	// Overlap is how long requests are signed with the former secret, too.
	Overlap = 24 * time.Hour
	// GiveUp is how long a webhook may fail before it is disabled, and how long a delivery is tried.
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
	// SaveWebhook writes w and returns it with its new version; ErrChanged if the stored version is
	// not w.Version.
	SaveWebhook(ctx context.Context, w Webhook) (Webhook, error)
	// DisableWebhook is SaveWebhook with the event of the disabling in the same transaction.
	DisableWebhook(ctx context.Context, w Webhook) (Webhook, error)
	// DeleteWebhook removes one, or returns ErrNotFound.
	DeleteWebhook(ctx context.Context, id string) error
}

// Wants reports whether w gets events of a type.
func (w Webhook) Wants(kind string) bool { return len(w.Types) == 0 || slices.Contains(w.Types, kind) }

const changeTries = 10

// Change applies f to a webhook and saves it; again, if another has saved it in between. If f returns
// false, nothing is saved.
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
