package activitypub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/httpsign"
	"fedpost/internal/protocol/outbound"
)

// Attempt makes one attempt to deliver to t, within the client's timeout.
//
// It is one POST. A second one, to the same inbox, is sent only after 401 or
// 403, with the other signature form; and once after 307 or 308 to the same
// origin, signed for the new address. In both cases the server has said that it
// did not take the first. After any other answer, and after none, a second POST
// could deliver twice.
func (d *delivery) Attempt(ctx context.Context, t activity.Target, _ int) outcome.Outcome {
	start := d.protocol.Now()
	o := d.attempt(ctx, t)
	if o.Class == outcome.Unverified {
		d.protocol.Keys.Doubt(d.keyID)
	}
	o.Took = d.protocol.Now().Sub(start)
	return o
}

func (d *delivery) attempt(ctx context.Context, t activity.Target) outcome.Outcome {
	if d.signer == nil {
		return d.failed
	}
	p := d.protocol
	ctx, cancel := context.WithTimeoutCause(ctx, p.Client.Timeout(), outbound.ErrTimeout)
	defer cancel()

	form := httpsign.Form(p.Forms.Form(t.Host()))
	if !form.Valid() {
		form = d.signer.First()
	}
	inbox, moved := t.Inbox, false
	var first outbound.Answer // of 401 or 403
	for {
		a, err := d.post(ctx, inbox, form)
		if err != nil {
			return failure(err)
		}
		if to, ok := sameOrigin(inbox, a); ok && !moved {
			inbox, moved = to, true
			continue
		}
		switch {
		case first.Status != 0:
			return p.secondAnswer(first, a, t, form)
		case a.Status == http.StatusUnauthorized, a.Status == http.StatusForbidden:
			first, form = a, form.Other()
		default:
			return p.judge(a, t)
		}
	}
}

// secondAnswer judges the answer to the second form, which was sent because of
// the first answer. If it is a refusal that tells no more than the first one,
// which was to the form the server should know, the first one is reported.
func (p *Protocol) secondAnswer(first, a outbound.Answer, t activity.Target, form httpsign.Form) outcome.Outcome {
	note := fmt.Sprintf("%d to signature form %s, %d to %s", first.Status, form.Other(), a.Status, form)
	if a.Status == http.StatusUnauthorized || a.Status == first.Status {
		a = first
	}
	o := p.judge(a, t)
	o.Note = note
	if o.Class == outcome.Delivered {
		p.Forms.RememberForm(t.Host(), string(form), p.Now().Add(p.FormTTL))
	}
	return o
}

// post sends the activity once. An error of signing wraps errSigning.
func (d *delivery) post(ctx context.Context, inbox string, form httpsign.Form) (outbound.Answer, error) {
	r, err := outbound.NewRequest(ctx, http.MethodPost, inbox, d.body)
	if err != nil {
		return outbound.Answer{}, err
	}
	r.Header.Set("Content-Type", ContentType)
	r.Header.Set("Accept", accept)
	if err := d.signer.Sign(r, form, d.digest, d.protocol.Now()); err != nil {
		return outbound.Answer{}, fmt.Errorf("%w: %w", errSigning, err)
	}
	return d.protocol.Client.Do(ctx, r)
}

var errSigning = errors.New("request could not be signed")

// judge reads an answer.
func (p *Protocol) judge(a outbound.Answer, t activity.Target) outcome.Outcome {
	o := outcome.Outcome{Status: a.Status, Response: a.Excerpt()}
	o.Class, o.RetryAfter = OfStatus(a.Status, t.Shared, a.Header, p.Now())
	if o.Class == outcome.Delivered {
		return o
	}
	o.Err = fmt.Sprintf("answered %d %s", a.Status, http.StatusText(a.Status))
	if a.Status >= 300 && a.Status < 400 {
		o.Err += fmt.Sprintf(" to %q, which is not followed", outcome.Clean(a.Header.Get("Location"), 200))
	}
	return o
}

// failure reads an error: no answer came.
func failure(err error) outcome.Outcome {
	o := outcome.Outcome{Class: outcome.Retry, Err: outcome.Text(err.Error())}
	if errors.Is(err, errSigning) || errors.Is(err, outbound.ErrStopped) {
		// Not the host's fault, so neither its circuit nor the tries suffer.
		o.Try = outcome.Untried
		return o
	}
	o.Reason = outbound.ReasonOf(err)
	if o.Reason == outcome.BlockedAddr || o.Reason == outcome.BadRequest {
		o.Class, o.Try = outcome.Refused, outcome.Untried
	}
	return o
}

// sameOrigin returns where a asks to repeat the POST, if it does (RFC 9110,
// sections 15.4.8 and 15.4.9) and if that is on the same server.
func sameOrigin(inbox string, a outbound.Answer) (string, bool) {
	if a.Status != http.StatusTemporaryRedirect && a.Status != http.StatusPermanentRedirect {
		return "", false
	}
	from, err := url.Parse(inbox)
	if err != nil {
		return "", false
	}
	to, err := from.Parse(a.Header.Get("Location"))
	if err != nil || a.Header.Get("Location") == "" || to.User != nil || to.Scheme != from.Scheme {
		return "", false
	}
	here, err := activity.Authority(from)
	if err != nil {
		return "", false
	}
	there, err := activity.Authority(to)
	return to.String(), err == nil && here == there
}
