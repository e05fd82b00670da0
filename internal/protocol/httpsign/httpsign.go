// Package httpsign signs outgoing requests in the two forms in use in the fediverse: the draft that
// nearly every server verifies (draft-cavage-http-signatures-12), and its successor (RFC 9421 with the
// Content-Digest of RFC 9530), which Mastodon verifies since 4.5 and some servers require.
//
// General libraries do not compute the body's digest once per activity, and do not sign just the
// components that every receiver is known to accept. fedpost verifies no signatures: it receives no
// activities.
package httpsign

import (
	"cmp"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"fedpost/internal/keys"
)

// Form is one of the ways to sign a request.
type Form string

const (
	Cavage  Form = "cavage"
	RFC9421 Form = "rfc9421"
	// CavagePath is Cavage without the query in the request target, as Fedify, bovine and apsig
	// verify it.
	CavagePath Form = "cavage-path"
)

func (f Form) Valid() bool { return f == Cavage || f == RFC9421 || f == CavagePath }

// Forms returns the forms to try on a host, each after the host has refused the one before: first, then
// the other of Cavage and RFC9421, then, for a URL with a query, CavagePath.
func Forms(first Form, query bool) []Form {
	forms := []Form{Cavage, RFC9421, CavagePath}
	if !query {
		forms = forms[:2]
	}
	if i := slices.Index(forms, first); i > 0 {
		forms = slices.Insert(slices.Delete(forms, i, i+1), 0, first)
	}
	return forms
}

// ErrKey says that a key or its id cannot sign requests.
var ErrKey = errors.New("unusable signing key")

// Signer signs requests in the name of one key. It is safe for concurrent use.
type Signer struct {
	key   crypto.Signer
	keyID string
	rsa   bool
}

// New returns a signer for an RSA or Ed25519 key; few servers verify the latter (FEP-521a). Receivers
// find the public key by keyID, usually a URL such as https://example.com/users/alice#main-key. The error
// wraps ErrKey.
func New(key crypto.Signer, keyID string) (*Signer, error) {
	if err := keys.CheckID(keyID); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
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

// First returns the form to try first on a host whose form is not known.
//
// For RSA that is Cavage: a server that verifies only RFC 9421 answers 401 to the draft, but some that
// verify only the draft answer 200 to RFC 9421 and drop the activity
// (https://github.com/pixelfed/pixelfed/issues/6590). Only RFC9421 defines Ed25519; some servers that
// verify the draft answer 500 to such a key.
func (s *Signer) First() Form {
	if s.rsa {
		return Cavage
	}
	return RFC9421
}

// Sign signs r in form f at the time now; d is the digest of r's body. It sets the Date header, and
// replaces an earlier signature. Set Content-Type before; change no signed header afterwards. extra are
// names of further headers to sign, in lower case.
func (s *Signer) Sign(r *http.Request, f Form, d Digest, now time.Time, extra ...string) error {
	prepare(r, now)
	switch f {
	case Cavage:
		return s.signCavage(r, d, r.URL.RequestURI(), extra)
	case CavagePath:
		return s.signCavage(r, d, r.URL.EscapedPath(), extra)
	case RFC9421:
		return s.signRFC9421(r, d, now, Asked{label: "sig1", components: rfc9421Components}, extra)
	default:
		return fmt.Errorf("sign request: unknown signature form %q", f)
	}
}

func prepare(r *http.Request, now time.Time) {
	for _, h := range []string{"Signature", "Signature-Input", "Digest", "Content-Digest"} {
		r.Header.Del(h)
	}
	r.Header.Set("Date", now.UTC().Format(http.TimeFormat))
}

// sign returns the base64 of the signature over base. Both forms use the same two algorithms.
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
func host(r *http.Request) string { return cmp.Or(r.Host, r.URL.Host) }

// Digest is the SHA-256 of a body in base64. It is computed once for all recipients of an activity.
type Digest string

// DigestOf returns the digest of the exact bytes that will be sent.
func DigestOf(body string) Digest {
	sum := sha256.Sum256([]byte(body))
	return Digest(base64.StdEncoding.EncodeToString(sum[:]))
}

// Header is the value of the header Digest (RFC 3230), which the draft signs.
func (d Digest) Header() string { return "SHA-256=" + string(d) }

// ContentHeader is the value of Content-Digest (RFC 9530, section 2), which RFC 9421 signs.
func (d Digest) ContentHeader() string { return "sha-256=:" + string(d) + ":" }
