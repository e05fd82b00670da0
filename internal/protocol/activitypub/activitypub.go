// Package activitypub delivers an activity to an inbox as ActivityPub servers do it
// (https://www.w3.org/TR/activitypub/#delivery): with one signed POST.
//
// It makes one attempt, and knows no waits, retries, queues or tables. Key and digest are prepared once
// for all recipients of an activity. The signature is made at send time, because receivers refuse old
// signatures.
package activitypub

import (
	"context"
	"crypto"
	"errors"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/keys"
	"fedpost/internal/protocol"
	"fedpost/internal/protocol/httpsign"
	"fedpost/internal/protocol/outbound"
	"fedpost/internal/protocol/retry"
)

// ContentType is the media type that Mastodon, Lemmy, PeerTube and Pixelfed send. Some proxies and
// parsers cannot handle application/ld+json with the ActivityStreams profile (ActivityPub, section 3.2).
const ContentType = "application/activity+json"

// accept asks for errors in JSON.
const accept = "application/activity+json, application/ld+json, application/json"

// KeySource finds signing keys; *keys.Ring is one.
type KeySource interface {
	// SigningKey returns the private key of an id: RSA or Ed25519. The error wraps keys.ErrNotFound
	// if there is none.
	SigningKey(ctx context.Context, keyID string) (crypto.Signer, error)
	// Doubt says that a server could not verify a signature of the key: the next SigningKey looks
	// for a newer key.
	Doubt(keyID string)
}

// FormMemory remembers which signature forms inboxes accept. It is called concurrently.
type FormMemory interface {
	// Form returns the httpsign.Form that t's inbox is expected to accept, or "". once: an attempt is
	// only one request, as the host has refused all forms.
	Form(t activity.Target) (form string, once bool)
	// TookForm says that t's inbox accepted form, after it refused another; refused is empty if it did
	// not. The memory may keep form until the time given. It should wait for a second such call, because
	// one refusal may have been a passing fault, and forget at once what was refused.
	TookForm(t activity.Target, refused, form string, until time.Time)
}

// FormTTL is how long a signature form is remembered. Then the usual form is tried
// again, at the cost of one request.
const FormTTL = 7 * 24 * time.Hour

// Protocol delivers activities. It is safe for concurrent use, and needs all its fields.
type Protocol struct {
	Keys   KeySource
	Client *outbound.Client
	Forms  FormMemory
	Now    func() time.Time
	// Date is the clock of signatures.
	Date func() time.Time
}

// delivery is an activity that is ready to be sent. It is safe for concurrent use.
type delivery struct {
	*Protocol
	a       activity.Activity
	digest  httpsign.Digest
	headers []activity.Header
	signer  *httpsign.Signer
}

// Prepare loads the key and computes the digest of a. Without the key each attempt is Refused if the key
// does not exist or cannot sign, else Retry, and sends nothing.
func (p *Protocol) Prepare(ctx context.Context, a activity.Activity) protocol.Attempt {
	d := &delivery{Protocol: p, a: a, digest: httpsign.DigestOf(a.Body)}
	key, err := p.Keys.SigningKey(ctx, a.KeyID)
	if err == nil {
		d.signer, err = httpsign.New(key, a.KeyID)
	}
	class, text := outcome.Refused, ""
	switch {
	case errors.Is(err, keys.ErrNotFound):
		text = "signing key " + a.KeyID + " does not exist; store it with PUT /v1/keys/{id} and retry"
	case err == nil:
		if d.headers, err = a.Headers.List(); err == nil {
			return d.Attempt
		}
		text = err.Error()
	case errors.Is(err, httpsign.ErrKey):
		text = err.Error()
	default:
		class, text = outcome.Retry, "signing key "+a.KeyID+" could not be loaded: "+err.Error()
	}
	failed := outcome.Outcome{Class: class, Try: outcome.Untried, Err: outcome.Text(text)}
	return func(context.Context, activity.Target, int) outcome.Outcome { return failed }
}

// Register returns the protocol's registration. p may be nil in processes that send nothing.
func Register(p *Protocol, policy retry.Policy) protocol.Protocol {
	r := protocol.Protocol{
		Name: activity.ActivityPub,
		Intake: protocol.Intake{
			Body: protocol.JSON, Missing: "give the activity to deliver, a JSON object",
			Inspector: inspector{}, Fields: []protocol.Field{protocol.KeyID}, Headers: true,
		},
		Delivery: protocol.Delivery{Policy: policy, Wait: outbound.MaxWait},
	}
	if p != nil {
		r.Delivery.Sender = p
	}
	return r
}
