package fediverse

import (
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-fed/httpsig"

	"fedpost/internal/protocol/httpsign"
	"fedpost/internal/testkit/fediverse/rfc9421"
)

// skew is how far a signature's date may be off; Misskey and others allow 300 s.
const skew = 5 * time.Minute

// Verify checks the signature of r without keeping a record of r, for servers
// that get more than fits into memory. Set keys, forms and clock before.
func (in *Inbox) Verify(r *http.Request, body []byte) error { return in.verify(r, body, &Post{}) }

// verify checks the signature of r and fills in p's form and key.
func (in *Inbox) verify(r *http.Request, body []byte, p *Post) error {
	if ct := r.Header.Get("Content-Type"); ct != "application/activity+json" && ct != `application/ld+json; profile="https://www.w3.org/ns/activitystreams"` {
		return fmt.Errorf("content type %q", ct)
	}
	check := in.verifyCavage
	p.Form = httpsign.Cavage
	if r.Header.Get("Signature-Input") != "" {
		p.Form, check = httpsign.RFC9421, in.verifyRFC9421
	} else if slices.Contains(in.forms, httpsign.CavagePath) && r.URL.RawQuery != "" {
		p.Form = httpsign.CavagePath
		r = r.Clone(r.Context())
		r.URL.RawQuery = ""
	}
	if !slices.Contains(in.forms, p.Form) {
		return fmt.Errorf("signatures of form %s are not taken here", p.Form)
	}
	return check(r, body, p)
}

func (in *Inbox) key(id string) (crypto.PublicKey, error) {
	if key, ok := in.keys[id]; ok {
		return key, nil
	}
	return nil, fmt.Errorf("no key %q is known here", id)
}

// verifyCavage verifies with go-fed/httpsig and applies the strictest of the rules of
// Mastodon, Misskey and PeerTube.
func (in *Inbox) verifyCavage(r *http.Request, body []byte, p *Post) error {
	for _, name := range []string{"(request-target)", "host", "date", "digest"} {
		if !slices.Contains(signedHeaders(r), name) {
			return fmt.Errorf("header %s is not signed", name)
		}
	}
	date, err := http.ParseTime(r.Header.Get("Date"))
	if err != nil {
		return err
	}
	if off := in.now().Sub(date).Abs(); off > skew {
		return fmt.Errorf("date is off by %s", off)
	}
	sum := sha256.Sum256(body)
	if want := "SHA-256=" + base64.StdEncoding.EncodeToString(sum[:]); r.Header.Get("Digest") != want {
		return fmt.Errorf("digest %q, the body has %q", r.Header.Get("Digest"), want)
	}
	// go-fed verifies the decoded path; the draft signs the path as it was sent.
	sent := r.Clone(r.Context())
	sent.URL = &url.URL{Path: r.URL.EscapedPath(), RawQuery: r.URL.RawQuery}
	v, err := httpsig.NewVerifier(sent)
	if err != nil {
		return err
	}
	p.KeyID = v.KeyId()
	key, err := in.key(p.KeyID)
	if err != nil {
		return err
	}
	algorithm := httpsig.RSA_SHA256
	if _, ok := key.(ed25519.PublicKey); ok {
		algorithm = httpsig.ED25519
	}
	return v.Verify(key, algorithm)
}

func signedHeaders(r *http.Request) []string {
	_, rest, _ := strings.Cut(r.Header.Get("Signature"), `headers="`)
	list, _, _ := strings.Cut(rest, `"`)
	return strings.Fields(list)
}

// verifyRFC9421 applies Mastodon's rules.
func (in *Inbox) verifyRFC9421(r *http.Request, body []byte, p *Post) error {
	s, err := rfc9421.Verify(r, body, in.key)
	p.KeyID = s.KeyID
	if err != nil {
		return err
	}
	if !s.Covers("@method", "@target-uri", "content-digest") {
		return errors.New("@method, @target-uri and content-digest have to be covered")
	}
	if off := in.now().Sub(time.Unix(s.Created, 0)).Abs(); off > skew {
		return fmt.Errorf("created is off by %s", off)
	}
	return nil
}
