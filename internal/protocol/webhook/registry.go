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
	// Tail returns the cursor after all events that there are.
	Tail func(ctx context.Context) (string, error)
	// Since returns the cursor before the first event at a time or later.
	Since func(ctx context.Context, at time.Time) (string, error)
	// Hand is Pump.Hand.
	Hand func(ctx context.Context, all []Sending) error
	// Reopen closes the circuit of a URL's server, as an operator says that its outage is over.
	Reopen func(ctx context.Context, url string) error
	// View returns the state of a request.
	View func(ctx context.Context, id activity.ID) (Answer, error)
	Now  func() time.Time
}

// Settings are what an operator sets of a webhook.
type Settings struct {
	URL   string
	Types []string
	Batch bool
	// Secret replaces the present one; "": a new webhook gets a made one, another keeps its own.
	Secret string
	// Rotate makes a new secret.
	Rotate bool
}

var idForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// ValidID reports whether a text can be a webhook's id.
func ValidID(id string) bool { return idForm.MatchString(id) }

// Put makes a webhook, which gets the events from now on, or changes one. A disabled one is enabled, and
// gets what it missed, as does a failing one that gets another URL. What waits for its server is sent at
// once. secret is the new secret if fedpost has made one.
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
		if !w.DisabledAt.IsZero() || w.URL != s.URL {
			w.FailingSince, w.LastError, w.DisabledAt = time.Time{}, "", time.Time{}
		}
		w.URL, w.Types, w.Batch = s.URL, s.Types, s.Batch
		if next != "" {
			if err := w.Replace(ctx, r.Sealer, next, r.Now()); err != nil {
				return w, "", false, err
			}
		}
		if w, err = r.SaveWebhook(ctx, w); errors.Is(err, ErrChanged) {
			continue
		}
		if err == nil {
			err = r.Reopen(ctx, s.URL)
		}
		return w, secret, created, err
	}
	return w, "", false, err
}

// handedBefore bounds how long before the first failure an event was recorded that was not taken:
// the pump, its queue and pauses of the server take time. What was taken in that time is sent
// again.
const handedBefore = time.Hour

// catchUp sets w back to where it began to fail, if what was queued since is not sent any more:
// because w was disabled, or because its URL changes.
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

// fresh is a new webhook. Two that are made at once may exceed MostWebhooks by one.
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

// Answer is the state of a request.
type Answer struct {
	State activity.State
	// Status of the receiver's answer; 0: it gave none.
	Status int
	// Err and Response say why the request failed, and what the receiver answered.
	Err, Response string
}

// TestWait is how long Test waits for an answer, and testLook how often it asks for one.
const (
	TestWait = 10 * time.Second
	testLook = 200 * time.Millisecond
)

// Test sends an event of type webhook.test, whatever types the webhook gets and whatever is known of its
// server. It returns the id of the request's activity, and its state after the first attempt or after
// TestWait.
func (r Registry) Test(ctx context.Context, id string) (activity.ID, Answer, error) {
	w, err := r.Webhook(ctx, id)
	if err != nil {
		return "", Answer{}, err
	}
	if err := r.Reopen(ctx, w.URL); err != nil {
		return "", Answer{}, err
	}
	now := r.Now().UTC()
	e := Event{ID: "evt_test_" + rand.Text(), Type: "webhook.test", Time: now}
	e.JSON = fmt.Sprintf(`{"id":%q,"type":%q,"time":%q}`, e.ID, e.Type, now.Format(time.RFC3339Nano))
	all := w.Sendings([]Event{e}, now)
	all[0].Test = true
	if err := r.Hand(ctx, all); err != nil {
		return "", Answer{}, err
	}
	return r.outcome(ctx, all[0].Activity.ID)
}

// outcome waits for the first attempt of a request.
func (r Registry) outcome(ctx context.Context, id activity.ID) (activity.ID, Answer, error) {
	end := time.NewTimer(TestWait)
	defer end.Stop()
	look := time.NewTicker(testLook)
	defer look.Stop()
	for {
		v, err := r.View(ctx, id)
		if err != nil || v.State != activity.Queued {
			return id, v, err
		}
		select {
		case <-end.C:
			return id, v, nil
		case <-ctx.Done():
			return id, v, nil // the caller has gone, and the request is on its way
		case <-look.C:
		}
	}
}
