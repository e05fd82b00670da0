package webhook

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/keys"
)

// Registry is what operators do with webhooks.
type Registry struct {
	Store
	Sealer keys.Sealer
	// Tail returns the cursor behind all events that there are.
	Tail func(ctx context.Context) (string, error)
	// Since returns the cursor before the first event that was told at a time or later.
	Since func(ctx context.Context, at time.Time) (string, error)
	// Hand is Pump.Hand.
	Hand func(ctx context.Context, all []Sending) error
	Now  func() time.Time
}

// Settings are what an operator sets of a webhook.
type Settings struct {
	URL   string
	Types []string
	Batch bool
	// Secret replaces the present one; "": a new webhook gets one, another keeps its own.
	Secret string
	// Rotate makes a new secret.
	Rotate bool
}

var idForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// ValidID reports whether a text can be a webhook's id.
func ValidID(id string) bool { return idForm.MatchString(id) }

// Put makes a webhook, which gets the events from now on, or changes one. One that was
// disabled is enabled, and gets what it has missed, as does one that fails and gets another
// URL. secret is the new secret if fedpost has made one.
func (r Registry) Put(ctx context.Context, id string, s Settings) (w Webhook, secret string, created bool, err error) {
	next := s.Secret
	if s.Rotate {
		secret = NewSecret()
		next = secret
	}
	for range changeTries {
		w, err = r.Webhook(ctx, id)
		if created = errors.Is(err, ErrNotFound); created {
			if w, err = r.fresh(ctx, id); err == nil && next == "" {
				secret = NewSecret()
				next = secret
			}
		}
		if err != nil {
			return w, "", false, err
		}
		if err := r.catchUp(ctx, &w, s.URL); err != nil {
			return w, "", false, err
		}
		w.URL, w.Types, w.Batch = s.URL, s.Types, s.Batch
		w.FailingSince, w.LastError, w.DisabledAt = time.Time{}, "", time.Time{}
		if next != "" {
			if err := w.Replace(ctx, r.Sealer, next, r.Now()); err != nil {
				return w, "", false, err
			}
		}
		if w, err = r.SaveWebhook(ctx, w); !errors.Is(err, ErrChanged) {
			return w, secret, created, err
		}
	}
	return w, "", false, err
}

// handedBefore is how long before the first failure an event may have been told that was not
// taken: the pump, its queue and pauses of its server take their time. What was taken in that
// time comes twice.
const handedBefore = time.Hour

// catchUp has w begin again where it began to fail, if what was handed over since is not sent
// any more: because w was disabled, or because its URL becomes another one.
func (r Registry) catchUp(ctx context.Context, w *Webhook, url string) (err error) {
	switch {
	case w.FailingSince.IsZero():
		return nil
	case !w.DisabledAt.IsZero():
		w.Anew = w.DisabledAt
	case w.URL != url:
		w.Anew = w.FailingSince
	default:
		return nil
	}
	since := w.FailingSince.Add(-handedBefore)
	if since.Before(w.CreatedAt) {
		since = w.CreatedAt
	}
	w.Cursor, err = r.Since(ctx, since)
	return err
}

// fresh is a new webhook. Two that are made at once may make one too many, which is
// harmless.
func (r Registry) fresh(ctx context.Context, id string) (Webhook, error) {
	all, err := r.Webhooks(ctx)
	if err != nil {
		return Webhook{}, err
	}
	if len(all) >= MostWebhooks {
		return Webhook{}, ErrTooMany
	}
	cursor, err := r.Tail(ctx)
	return Webhook{ID: id, CreatedAt: r.Now(), Cursor: cursor}, err
}

// Test hands over a request with an event of type webhook.test, whatever types the webhook
// gets, and returns the id of its activity.
func (r Registry) Test(ctx context.Context, id string) (activity.ID, error) {
	w, err := r.Webhook(ctx, id)
	if err != nil {
		return "", err
	}
	now := r.Now().UTC()
	e := Event{ID: "evt_test_" + rand.Text(), Type: "webhook.test", Time: now}
	e.JSON = fmt.Sprintf(`{"id":%q,"type":%q,"time":%q}`, e.ID, e.Type, now.Format(time.RFC3339Nano))
	all := w.Sendings([]Event{e}, now)
	return all[0].Activity.ID, r.Hand(ctx, all)
}
