// Package sink is an inbox for trials: it takes what is sent to it if the signature is right,
// as a server of the fediverse does, and keeps nothing.
//
// Who tries out fedpost has no actor yet whose document a server could fetch, so the sink
// gets public keys elsewhere: from the fedpost that sends.
package sink

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-fed/httpsig"

	"fedpost/client"
)

const (
	maxBody = 1 << 20         // bytes; fedpost sends a quarter of it at most
	skew    = 5 * time.Minute // how far a signature's date may be off; Misskey's
)

// signed are the headers that a signature has to cover, as Mastodon demands.
var signed = []string{"(request-target)", "host", "date", "digest"}

// Inbox verifies requests. Any path is an inbox.
type Inbox struct {
	// Key returns the public key of an id.
	Key func(ctx context.Context, id string) (crypto.PublicKey, error)
	// Answer answers a request whose signature is right.
	Answer func(w http.ResponseWriter, r *http.Request, p Post)
	// Refused, if not nil, is called with the reason why a request is answered 401.
	Refused func(r *http.Request, why error)
	Now     func() time.Time
}

// Post is a request whose signature is right.
type Post struct {
	KeyID string
	Bytes int // of the body
	// ID and Type are the activity's; empty if the body has none.
	ID, Type string
}

// ServeHTTP implements http.Handler.
func (in Inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		http.Error(w, "an inbox takes POST", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p, err := in.verify(r, body)
	if err != nil {
		if in.Refused != nil {
			in.Refused(r, err)
		}
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	in.Answer(w, r, p)
}

// verify checks a draft-cavage signature, which every server takes. fedpost signs so for a
// server that refuses RFC 9421.
func (in Inbox) verify(r *http.Request, body []byte) (Post, error) {
	p := Post{Bytes: len(body)}
	if r.Header.Get("Signature") == "" {
		return p, errors.New("there is no signature")
	}
	if r.Header.Get("Signature-Input") != "" {
		return p, errors.New("the signature is not one of draft-cavage, which the sink reads")
	}
	_, rest, _ := strings.Cut(r.Header.Get("Signature"), `headers="`)
	list, _, _ := strings.Cut(rest, `"`)
	for _, name := range signed {
		if !slices.Contains(strings.Fields(list), name) {
			return p, fmt.Errorf("header %s is not signed", name)
		}
	}
	date, err := http.ParseTime(r.Header.Get("Date"))
	if err != nil {
		return p, fmt.Errorf("date: %w", err)
	}
	if off := in.Now().Sub(date).Abs(); off > skew {
		return p, fmt.Errorf("the date is off by %s", off)
	}
	sum := sha256.Sum256(body)
	if r.Header.Get("Digest") != "SHA-256="+base64.StdEncoding.EncodeToString(sum[:]) {
		return p, errors.New("the digest is not that of the body")
	}
	// The library verifies the decoded path; the draft signs the path as it was sent.
	sent := r.Clone(r.Context())
	sent.URL = &url.URL{Path: r.URL.EscapedPath(), RawQuery: r.URL.RawQuery}
	v, err := httpsig.NewVerifier(sent)
	if err != nil {
		return p, fmt.Errorf("read the signature: %w", err)
	}
	p.KeyID = v.KeyId()
	key, err := in.Key(r.Context(), p.KeyID)
	if err != nil {
		return p, fmt.Errorf("key %s: %w", p.KeyID, err)
	}
	algorithm := httpsig.RSA_SHA256
	if _, ok := key.(ed25519.PublicKey); ok {
		algorithm = httpsig.ED25519
	}
	if err := v.Verify(key, algorithm); err != nil {
		return p, fmt.Errorf("the signature is wrong: %w", err)
	}
	var a struct{ ID, Type string }
	if err := json.Unmarshal(body, &a); err == nil {
		p.ID, p.Type = a.ID, a.Type
	}
	return p, nil
}

// KeysOf returns public keys as a fedpost has them.
func KeysOf(c *client.Client) func(ctx context.Context, id string) (crypto.PublicKey, error) {
	return func(ctx context.Context, id string) (crypto.PublicKey, error) {
		k, err := c.Key(ctx, id)
		if err != nil {
			return nil, err
		}
		block, _ := pem.Decode([]byte(k.PublicKeyPEM))
		if block == nil {
			return nil, errors.New("fedpost's answer has no PEM")
		}
		return x509.ParsePKIXPublicKey(block.Bytes)
	}
}
