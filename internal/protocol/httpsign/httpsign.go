// Package httpsign signs outgoing requests so that other servers believe who
// sent them. It knows the two forms the fediverse speaks: the draft that nearly
// everything verifies (draft-cavage-http-signatures-12) and the standard that
// replaced it (RFC 9421 with the Content-Digest of RFC 9530), which Mastodon
// verifies since 4.5 and some servers demand.
//
// It is our own code because signing is what fedpost exists for, and because a
// general library decides late what has to be decided here: which components
// are covered is fixed, to exactly what every receiver is known to take, and
// the body's digest is computed once per activity and not once per recipient.
// Verification is left out on purpose: fedpost never receives.
//
// The draft's header Collection-Synchronization (FEP-8fcf) is not sent: it
// depends on who follows whom on each server, which only the caller knows.
package httpsign

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Form is one of the ways to sign a request.
type Form string

// The forms.
const (
	Cavage  Form = "cavage"
	RFC9421 Form = "rfc9421"
	// CavagePath is Cavage with a request target of the path alone, as Fedify,
	// bovine and apsig verify it. It differs for a URL with a query only.
	CavagePath Form = "cavage-path"
)

// Valid reports whether f is a form.
func (f Form) Valid() bool { return f == Cavage || f == RFC9421 || f == CavagePath }

// Forms returns the forms to try on a host, in this order, each only when the
// one before was refused: first, then the other of the draft and RFC 9421, and
// for a URL with a query the draft without it. Each form stands there once.
func Forms(first Form, query bool) []Form {
	switch {
	case first == CavagePath && query:
		return []Form{CavagePath, Cavage, RFC9421}
	case first == RFC9421 && query:
		return []Form{RFC9421, Cavage, CavagePath}
	case first == RFC9421:
		return []Form{RFC9421, Cavage}
	case query:
		return []Form{Cavage, RFC9421, CavagePath}
	}
	return []Form{Cavage, RFC9421}
}

// ErrKey says that a key or its id cannot sign requests.
var ErrKey = errors.New("unusable signing key")

// Signer signs requests in the name of one key. It is safe for concurrent use.
type Signer struct {
	key   crypto.Signer
	keyID string
	rsa   bool
}

// New returns a signer for an RSA or Ed25519 key. The keyID is what receivers
// look the public key up by, usually a URL such as
// https://example.com/users/alice#main-key. Its error wraps ErrKey.
//
// Ed25519 keys are published as FEP-521a describes; few servers verify them.
func New(key crypto.Signer, keyID string) (*Signer, error) {
	if err := CheckKeyID(keyID); err != nil {
		return nil, err
	}
	switch pub := key.Public().(type) {
	case *rsa.PublicKey:
		return &Signer{key: key, keyID: keyID, rsa: true}, nil
	case ed25519.PublicKey:
		return &Signer{key: key, keyID: keyID}, nil
	default:
		return nil, fmt.Errorf("%w: %s is of type %T; use RSA or Ed25519", ErrKey, keyID, pub)
	}
}

// First returns the form to try on a host we know nothing of.
//
// For RSA it is the draft: a server that takes only RFC 9421 says so with a
// 401, but some that take only the draft answer 200 to the other form and drop
// the activity in silence (https://github.com/pixelfed/pixelfed/issues/6590).
// For Ed25519 it is RFC 9421, which names that algorithm; of the draft's
// verifiers some fail on such a key with a 500.
func (s *Signer) First() Form {
	if s.rsa {
		return Cavage
	}
	return RFC9421
}

// CheckKeyID returns an error, which wraps ErrKey, for an id that cannot stand
// between quotes in a signature header without changing its meaning.
func CheckKeyID(id string) error {
	if id == "" {
		return fmt.Errorf("%w: the key id is empty", ErrKey)
	}
	for i := range len(id) {
		if c := id[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return fmt.Errorf("%w: key id %q has %q at byte %d; percent-encode it", ErrKey, id, c, i)
		}
	}
	return nil
}

// Sign signs r, whose body has digest d, as sent at now. It sets Date, the
// digest and the signature headers and removes those of the other form, so a
// request may be signed again. Content-Type has to be set before, and neither
// URL nor any covered header may change afterwards.
func (s *Signer) Sign(r *http.Request, f Form, d Digest, now time.Time) error {
	for _, h := range []string{"Signature", "Signature-Input", "Digest", "Content-Digest"} {
		r.Header.Del(h)
	}
	r.Header.Set("Date", now.UTC().Format(http.TimeFormat))
	switch f {
	case Cavage:
		return s.signCavage(r, d, r.URL.RequestURI())
	case CavagePath:
		return s.signCavage(r, d, r.URL.EscapedPath())
	case RFC9421:
		return s.signRFC9421(r, d, now)
	default:
		return fmt.Errorf("sign request: unknown signature form %q", f)
	}
}

// sign returns the base64 of the signature over base. Both forms use the same
// two algorithms: RSASSA-PKCS1-v1_5 with SHA-256, and Ed25519.
func (s *Signer) sign(base string) (string, error) {
	msg, opts := []byte(base), crypto.SignerOpts(crypto.Hash(0))
	if s.rsa {
		sum := sha256.Sum256(msg)
		msg, opts = sum[:], crypto.SHA256
	}
	sig, err := s.key.Sign(rand.Reader, msg, opts)
	if err != nil {
		return "", fmt.Errorf("sign with key %s: %w", s.keyID, err)
	}
	return base64.StdEncoding.EncodeToString(sig), nil
}

// host returns the Host header as net/http will send it.
func host(r *http.Request) string {
	if r.Host != "" {
		return r.Host
	}
	return r.URL.Host
}
