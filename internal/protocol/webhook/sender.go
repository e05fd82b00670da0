package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/keys"
	"fedpost/internal/protocol"
	"fedpost/internal/protocol/outbound"
	"fedpost/internal/protocol/retry"
)

// Sender makes the requests. Its activities hold the webhook's id in KeyID, and the request's in Job.
type Sender struct {
	Store  Store
	Sealer keys.Sealer
	Client *outbound.Client
	Now    func() time.Time
	// Date is the clock of signatures.
	Date func() time.Time
	Log  *slog.Logger

	opened opened
}

// Register returns the protocol's registration. sender is nil in processes that send nothing, pump in
// those without scheduled work.
func Register(sender *Sender, pump *Pump) protocol.Protocol {
	policy := retry.ActivityPub()
	policy.Name, policy.GiveUp = string(Name), GiveUp
	r := protocol.Protocol{
		Name:     Name,
		Intake:   protocol.Intake{Body: protocol.None},
		Delivery: protocol.Delivery{Policy: policy, Wait: outbound.MaxWait, Quiet: true},
	}
	if sender != nil {
		r.Delivery.Sender = sender
	}
	if pump != nil {
		r.Upkeep = pump
	}
	return r
}

// Prepare implements protocol.Sender. Attempts read the webhook themselves, because it may be changed or
// deleted while they wait.
func (s *Sender) Prepare(_ context.Context, a activity.Activity) protocol.Attempt {
	return func(ctx context.Context, t activity.Target, _ int) outcome.Outcome { return s.attempt(ctx, a, t) }
}

func (s *Sender) attempt(ctx context.Context, a activity.Activity, t activity.Target) outcome.Outcome {
	w, err := s.Store.Webhook(ctx, a.KeyID)
	switch {
	case errors.Is(err, ErrNotFound):
		return refused("the webhook was deleted")
	case err != nil:
		return ours(err)
	case !w.DisabledAt.IsZero():
		return refused("the webhook is disabled")
	case a.CreatedAt.Before(w.Anew):
		return refused("the webhook was disabled, and gets its events anew")
	case t.Inbox != w.URL:
		// The former address gets no more events, and no signature that the present one takes.
		return refused("the webhook has another URL now")
	}
	secrets, err := s.opened.of(ctx, s.Sealer, w, s.Now())
	if err != nil {
		return ours(err)
	}
	o := s.post(ctx, secrets, a, t.Inbox)
	o.Method = "WEBHOOK"
	s.remember(ctx, w, o)
	return o
}

func refused(why string) outcome.Outcome {
	return outcome.Outcome{Class: outcome.Refused, Try: outcome.Untried, Err: why}
}

// ours is the outcome of a fault that is not the receiver's.
func ours(err error) outcome.Outcome {
	return outcome.Outcome{Class: outcome.Retry, Try: outcome.Untried, Err: err.Error()}
}

// post makes one request. Everything but a 2xx is tried again, because the operator can mend the
// endpoint; 410 asks for no more (Standard Webhooks).
func (s *Sender) post(ctx context.Context, secrets [][]byte, a activity.Activity, url string) outcome.Outcome {
	r, err := outbound.NewRequest(ctx, http.MethodPost, url, a.Body)
	if err != nil {
		return outbound.Failure(err)
	}
	now := s.Date()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Webhook-Id", a.Job)
	r.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	r.Header.Set("Webhook-Signature", signature(secrets, a.Job, now, a.Body))
	answer, err := s.Client.Do(ctx, r)
	if err != nil {
		return outbound.Failure(err)
	}
	o := outcome.Outcome{Class: outcome.Retry, Status: answer.Status, Response: answer.Excerpt()}
	switch {
	case answer.OK():
		o.Class = outcome.Delivered
		return o
	case answer.Status == http.StatusGone:
		o.Class = outcome.Refused
	case answer.Status == http.StatusTooManyRequests, answer.Status == http.StatusServiceUnavailable:
		if at, ok := outcome.RetryAfter(answer.Header.Get("Retry-After"), now); ok {
			o.Class, o.RetryAfter = outcome.Throttled, at
		}
	}
	o.Err = fmt.Sprintf("answered %d %s", answer.Status, http.StatusText(answer.Status))
	return o
}

// remember records since when a webhook fails, or that it works again. An error is only logged:
// then the webhook is disabled later.
func (s *Sender) remember(ctx context.Context, known Webhook, o outcome.Outcome) {
	works := o.Class == outcome.Delivered
	if o.Err == "" && !works || works == known.FailingSince.IsZero() && o.Status != http.StatusGone {
		return
	}
	err := Change(ctx, s.Store, known.ID, func(w *Webhook) bool {
		switch {
		case works && !w.FailingSince.IsZero():
			w.FailingSince, w.LastError = time.Time{}, ""
			return true
		case !works && w.FailingSince.IsZero():
			w.FailingSince, w.LastError = s.Now(), outcome.Clean(o.Err, 200)
			return true
		}
		return false
	})
	if err != nil && !errors.Is(err, ErrNotFound) {
		s.Log.WarnContext(ctx, "cannot record whether a webhook works", "webhook", known.ID, "error", err)
	}
}
