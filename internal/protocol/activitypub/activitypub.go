// Package activitypub delivers an activity to an inbox as ActivityPub servers
// do it (https://www.w3.org/TR/activitypub/#delivery): one signed POST, whose
// answer is final, asks for another try, or asks for a pause.
//
// It is all of the protocol and none of the engine: it neither waits nor
// repeats, and knows nothing of queues or tables. What it shares between the
// recipients of an activity (key, digest) is prepared once; the signature is
// made at send time, because receivers refuse one that has grown old.
package activitypub

import (
	"cmp"
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
)

// ContentType is what Mastodon, Lemmy, PeerTube and Pixelfed send, and what
// every server takes for the equal application/ld+json with its profile, which
// some proxies and parsers stumble over (ActivityPub, section 3.2).
const ContentType = "application/activity+json"

// accept asks for errors that a program can read.
const accept = "application/activity+json, application/ld+json, application/json"

// KeySource finds signing keys; *keys.Ring is one.
type KeySource interface {
	// SigningKey returns the private key of an id: RSA or Ed25519. Its error
	// wraps keys.ErrNotFound if there is none.
	SigningKey(ctx context.Context, keyID string) (crypto.Signer, error)
	// Doubt has the next SigningKey look for a newer key: a server could not
	// verify a signature of this one.
	Doubt(keyID string)
}

// FormMemory remembers which signature form a host takes. It is asked before
// every request and told only when a host refused the form it was expected to
// take and accepted the other. It is used concurrently.
type FormMemory interface {
	// Form returns the name of an httpsign.Form that a host (an authority, as
	// activity.Target.Host returns it) is known to take, or "".
	Form(host string) string
	// RememberForm says that host has accepted form after it had refused the one
	// it was expected to take. A memory should want to hear that twice before it
	// keeps form until a time: one refusal may have passed by itself.
	RememberForm(host, form string, until time.Time)
}

// FormTTL is how long a host's signature form is remembered by default. After
// that the form that all servers know is tried again, at the price of one more
// request if it is still refused.
const FormTTL = 7 * 24 * time.Hour

// Config is what a Protocol needs. Keys and Client are required.
type Config struct {
	Keys   KeySource
	Client *outbound.Client
	// Forms remembers; nil remembers nothing.
	Forms FormMemory
	// FormTTL is how long; default FormTTL.
	FormTTL time.Duration
	// Now is the clock; default time.Now.
	Now func() time.Time
}

// Protocol delivers activities. It is safe for concurrent use.
type Protocol struct{ Config }

// New returns a Protocol.
func New(c Config) *Protocol {
	c.FormTTL = cmp.Or(c.FormTTL, FormTTL)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Forms == nil {
		c.Forms = forgetful{}
	}
	return &Protocol{c}
}

// delivery is an activity that is ready to be sent. It is safe for concurrent
// use.
type delivery struct {
	protocol *Protocol
	body     string
	digest   httpsign.Digest
	keyID    string
	signer   *httpsign.Signer
	// failed is how every attempt ends if there is no signer.
	failed outcome.Outcome
}

// Prepare loads the key and computes the digest of a. If the key cannot be had,
// every attempt of the delivery says so without sending anything: for good if
// it does not exist, as one to be repeated if it could not be loaded.
func (p *Protocol) Prepare(ctx context.Context, a activity.Activity) protocol.Attempt {
	return p.prepare(ctx, a).Attempt
}

func (p *Protocol) prepare(ctx context.Context, a activity.Activity) *delivery {
	d := &delivery{protocol: p, body: a.Body, keyID: a.KeyID, digest: httpsign.DigestOf(a.Body)}
	key, err := p.Keys.SigningKey(ctx, a.KeyID)
	if err == nil {
		d.signer, err = httpsign.New(key, a.KeyID)
	}
	switch {
	case errors.Is(err, keys.ErrNotFound):
		d.failed = outcome.Outcome{Class: outcome.Refused, Try: outcome.Untried,
			Err: "signing key " + a.KeyID + " does not exist; store it with PUT /v1/keys/{id} and retry"}
	case errors.Is(err, httpsign.ErrKey):
		d.failed = outcome.Outcome{Class: outcome.Refused, Try: outcome.Untried, Err: outcome.Text(err.Error())}
	case err != nil:
		d.failed = outcome.Outcome{Class: outcome.Retry, Try: outcome.Untried,
			Err: outcome.Text("signing key " + a.KeyID + " could not be loaded: " + err.Error())}
	}
	return d
}

type forgetful struct{}

func (forgetful) Form(string) string                     { return "" }
func (forgetful) RememberForm(string, string, time.Time) {}
