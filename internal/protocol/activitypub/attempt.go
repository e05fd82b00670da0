package activitypub

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol"
	"fedpost/internal/protocol/httpsign"
	"fedpost/internal/protocol/outbound"
)

// Attempt makes one attempt to deliver to t, within the client's timeout. It is one POST. A further POST
// is sent only if the server has said that it did not accept the activity; after any other answer, or
// none, the activity could be delivered twice:
//   - after 401, 403 or a 400 that names the signature: once, with the other signature form, or after a
//     401 as the server asks for it with Accept-Signature (RFC 9421, section 5)
//   - after 401 or 403 to the second form, if the first answer was 401 and the URL has a query: once,
//     with a signature that leaves the query out
//   - after 307 or 308 to the same origin: once, signed for the new address
//
// It makes at most mostRequests, or only one if FormMemory says so.
func (d *delivery) Attempt(ctx context.Context, t activity.Target, _ int) outcome.Outcome {
	start := d.Now()
	o := d.attempt(ctx, t)
	if o.Class == outcome.Unverified {
		d.Keys.Doubt(d.a.KeyID)
	}
	if o.Status == http.StatusBadRequest && d.signer.First() == httpsign.RFC9421 {
		o.Err += " to an Ed25519 key's signature, which not every server verifies"
	}
	o.Took = d.Now().Sub(start)
	return o
}

// mostRequests is how many requests a trial costs at most: see the budget of circuit.Rules.
const mostRequests = 3

func (d *delivery) attempt(ctx context.Context, t activity.Target) (o outcome.Outcome) {
	var form httpsign.Form // of the last request
	requests := 0
	defer func() { o.Form, o.Requests = string(form), requests }()
	// The host's time-out begins when this machine has a processor for the signature.
	done, err := d.Client.Acquire(ctx, t.Host(), false)
	if err != nil {
		return outbound.Failure(err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, d.Client.Timeout(), outbound.ErrTimeout)
	defer cancel()

	known, once := d.Forms.Form(t)
	first, most := httpsign.Form(known), mostRequests
	if !first.Valid() {
		first = d.signer.First()
	}
	if once {
		most = 1
	}
	extra, err := d.extra(t)
	if err != nil {
		return outcome.Outcome{Class: outcome.Refused, Try: outcome.Untried, Err: outcome.Text(err.Error())}
	}
	inbox, moved := t.Inbox, false
	forms := httpsign.Forms(first, strings.Contains(inbox, "?")) // a canonical URL has no empty query
	var refusals []refusal
	var asked *httpsign.Asked
	for n := 0; ; {
		form = forms[n]
		requests++
		r, a, err := d.post(ctx, inbox, extra, form, asked, done)
		done = nil
		if err != nil {
			return outbound.Failure(err)
		}
		to, follow := sameOrigin(inbox, a)
		follow = follow && !moved
		if follow && requests < most {
			inbox, moved = to, true
			continue
		}
		if n == 0 && !refused(a) {
			if o = d.judge(a, t); o.Class == outcome.Delivered {
				d.Forms.TookForm(t, "", string(form), d.Now().Add(FormTTL))
			}
			if follow {
				o.Class = outcome.Retry // a later attempt may make more requests, and so can follow the redirect
			}
			return o
		}
		refusals = append(refusals, refusal{forms[n], a})
		if n == 0 && a.Status == http.StatusUnauthorized {
			if this, ok := d.signer.Asked(a.Header, r); ok {
				asked, forms = &this, []httpsign.Form{form, httpsign.RFC9421}
			}
		}
		if n++; n == len(forms) || requests == most || !refused(a) || n > 1 && refusals[0].answer.Status != http.StatusUnauthorized {
			return d.lastAnswer(refusals, t)
		}
	}
}

// refused reports whether an answer may be due to the signature's form.
func refused(a outbound.Answer) bool {
	return a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden || namesSignature(a)
}

// namesSignature reports whether a 400 is about the signature, as Lemmy's "Incoming activity has invalid
// signature", and does not just quote an activity that has such a member.
func namesSignature(a outbound.Answer) bool {
	if a.Status != http.StatusBadRequest {
		return false
	}
	text := strings.ToLower(a.Excerpt())
	return strings.Contains(text, "signature") && !strings.Contains(text, `"signature":`)
}

// refusal is a signature form and the answer to it. The last of a list may be a success.
type refusal struct {
	form   httpsign.Form
	answer outbound.Answer
}

// lastAnswer judges the answer to the last form that was tried, or an earlier refusal if the last says no
// more: a server that does not know the last form may just say "no signature".
func (p *Protocol) lastAnswer(all []refusal, t activity.Target) outcome.Outcome {
	a, note := all[0].answer, fmt.Sprintf("%d to signature form %s", all[0].answer.Status, all[0].form)
	for _, r := range all[1:] {
		if r.answer.Status != http.StatusUnauthorized && r.answer.Status != a.Status {
			a = r.answer
		}
		note += fmt.Sprintf(", %d to %s", r.answer.Status, r.form)
	}
	o := p.judge(a, t)
	o.Note = note
	if o.Class == outcome.Delivered {
		p.Forms.TookForm(t, string(all[0].form), string(all[len(all)-1].form), p.Now().Add(FormTTL))
	}
	return o
}

// post sends the activity once, and returns the request, too. done ends the caller's permit for signing,
// if it has one.
func (d *delivery) post(ctx context.Context, inbox string, extra []activity.Header, form httpsign.Form, asked *httpsign.Asked, done func()) (*http.Request, outbound.Answer, error) {
	if done == nil {
		var err error
		if done, err = d.Client.Acquire(ctx, activity.HostOf(inbox), true); err != nil {
			return nil, outbound.Answer{}, err
		}
	}
	r, err := d.request(ctx, inbox, extra, form, asked)
	done()
	protocol.Signed(ctx)
	if err != nil {
		return nil, outbound.Answer{}, err
	}
	a, err := d.Client.Do(ctx, r)
	return r, a, err
}

// extra returns the headers to add to requests to t: the recipient's, and those of the activity that the
// recipient does not replace.
func (d *delivery) extra(t activity.Target) ([]activity.Header, error) {
	own, err := t.Headers.List()
	if err != nil || len(own) == 0 {
		return d.headers, err
	}
	all := slices.Clone(own)
	for _, h := range d.headers {
		if !slices.ContainsFunc(own, func(o activity.Header) bool { return o.Name == h.Name }) {
			all = append(all, h)
		}
	}
	return all, nil
}

func (d *delivery) request(ctx context.Context, inbox string, extra []activity.Header, form httpsign.Form, asked *httpsign.Asked) (*http.Request, error) {
	r, err := outbound.NewRequest(ctx, http.MethodPost, inbox, d.a.Body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", ContentType)
	r.Header.Set("Accept", accept)
	var signed []string
	for _, h := range extra {
		if r.Header.Set(h.Name, h.Value); h.Sign {
			signed = append(signed, strings.ToLower(h.Name))
		}
	}
	now := d.Date()
	// The host may have asked for a header that only the request before had.
	if asked != nil && d.signer.SignAsked(r, *asked, d.digest, now, signed...) == nil {
		return r, nil
	}
	if err = d.signer.Sign(r, form, d.digest, now, signed...); err != nil {
		return nil, fmt.Errorf("%w: request could not be signed: %w", outbound.ErrStopped, err)
	}
	return r, nil
}

func (p *Protocol) judge(a outbound.Answer, t activity.Target) outcome.Outcome {
	o := outcome.Outcome{Status: a.Status, Response: a.Excerpt()}
	o.Class, o.RetryAfter = OfStatus(a.Status, t.Shared, a.Header, p.Now())
	if namesSignature(a) {
		o.Class = outcome.Unverified
	}
	if o.Class == outcome.Delivered {
		return o
	}
	o.Err = fmt.Sprintf("answered %d %s", a.Status, http.StatusText(a.Status))
	if a.Status >= 300 && a.Status < 400 {
		o.Err += fmt.Sprintf(" to %q, which is not followed", outcome.Clean(a.Header.Get("Location"), 200))
	}
	return o
}

// sameOrigin returns the URL to which a redirects the POST (307 or 308: RFC 9110, sections 15.4.8 and
// 15.4.9); false if it does not, or to another origin.
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
