// Package httpsign signs outgoing requests, so that the receiving server can verify who
// sent them. It knows the two forms in use in the fediverse: the draft that nearly every
// server verifies (draft-cavage-http-signatures-12), and the standard that replaced the
// draft (RFC 9421 with the Content-Digest of RFC 9530), which Mastodon verifies since 4.5
// and some servers require.
//
// fedpost has its own code for this, because signing is what fedpost exists for, and
// because general libraries lack two things: the signed components are fixed to those
// that every receiver is known to accept, and the body's digest is computed once per
// activity and not once per recipient. The package does not verify signatures: fedpost
// receives no activities.
//
// Further headers are signed where the caller asks for it: Collection-Synchronization
// (FEP-8fcf) needs that, and only the caller knows its value.
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
	// CavagePath is Cavage with the path alone as the request target, as Fedify, bovine
	// and apsig verify it. CavagePath differs from Cavage only for a URL with a query.
	CavagePath Form = "cavage-path"
)

// Valid reports whether f is a form.
func (f Form) Valid() bool { return f == Cavage || f == RFC9421 || f == CavagePath }

// Forms returns the forms to try on a host, in this order; each form is tried only after
// the host has refused the form before. The order is: first, then the other of Cavage and
// RFC9421, then, for a URL with a query, CavagePath. Each form is listed once.
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

// New returns a signer for an RSA or Ed25519 key. Receivers find the public key by keyID,
// which is usually a URL such as https://example.com/users/alice#main-key. The error
// wraps ErrKey.
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

// First returns the form to try first on a host whose form is not known.
//
// For an RSA key that is Cavage: a server that verifies only RFC 9421 answers 401 to the
// draft, but some servers that verify only the draft answer 200 to RFC 9421 and silently
// drop the activity (https://github.com/pixelfed/pixelfed/issues/6590). For an Ed25519
// key that is RFC9421, which defines this algorithm; some servers that verify the draft
// answer 500 to such a key.
func (s *Signer) First() Form {
	if s.rsa {
		return Cavage
	}
	return RFC9421
}

// CheckKeyID returns an error, which wraps ErrKey, for an empty id and for an id that
// needs escaping inside the quotes of a signature header.
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

// Sign signs r in form f. d is the digest of r's body, and now the time of sending. Sign
// sets the Date header and the headers of f, and removes the headers of the other forms,
// so that a request can be signed again. Set Content-Type before; do not change the URL or
// a signed header afterwards. extra are names of further headers to sign, in lower case.
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

// prepare removes the headers of earlier signatures, and sets the time.
func prepare(r *http.Request, now time.Time) {
	for _, h := range []string{"Signature", "Signature-Input", "Digest", "Content-Digest"} {
		r.Header.Del(h)
	}
	r.Header.Set("Date", now.UTC().Format(http.TimeFormat))
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
