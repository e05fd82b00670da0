// Package rfc9421 verifies RFC 9421 signatures, for tests only.
//
// It shares no code with the signer and works from what a server receives, so
// that a misreading of the RFC does not cancel itself out; the RFC's own test
// cases hold both to it.
package rfc9421

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Signature is one verified signature.
type Signature struct {
	Label, KeyID, Alg string
	Created           int64
	// Components are the covered component identifiers, without quotes.
	Components []string
}

// Covers reports whether all of the components are covered.
func (s Signature) Covers(components ...string) bool {
	for _, c := range components {
		if !slices.Contains(s.Components, c) {
			return false
		}
	}
	return true
}

// Verify checks the one signature of a request against body and the key that
// keys returns for its keyid. A covered Content-Digest is checked too.
func Verify(r *http.Request, body []byte, keys func(keyID string) (crypto.PublicKey, error)) (Signature, error) {
	inputs, err := parseDictionary(r.Header.Get("Signature-Input"))
	if err != nil {
		return Signature{}, fmt.Errorf("Signature-Input: %w", err)
	}
	sigs, err := parseDictionary(r.Header.Get("Signature"))
	if err != nil {
		return Signature{}, fmt.Errorf("Signature: %w", err)
	}
	if len(inputs) != 1 || len(sigs) != 1 || inputs[0].key != sigs[0].key {
		return Signature{}, errors.New("want exactly one signature with its input")
	}
	in := inputs[0]
	s := Signature{Label: in.key, KeyID: in.params.text("keyid"), Alg: in.params.text("alg"), Created: in.params.integer("created")}
	for _, c := range in.inner {
		s.Components = append(s.Components, c.value)
	}
	base, err := Base(r, in.inner, in.raw)
	if err != nil {
		return s, err
	}
	key, err := keys(s.KeyID)
	if err != nil {
		return s, err
	}
	if err := check(key, s.Alg, base, sigs[0].bytes); err != nil {
		return s, err
	}
	if s.Covers("content-digest") {
		return s, contentDigest(r.Header.Get("Content-Digest"), body)
	}
	return s, nil
}

// Base builds the signature base (RFC 9421, section 2.5).
func Base(r *http.Request, components []item, params string) (string, error) {
	var lines []string
	for _, c := range components {
		v, err := value(r, c)
		if err != nil {
			return "", err
		}
		lines = append(lines, c.raw+": "+v)
	}
	return strings.Join(append(lines, `"@signature-params": `+params), "\n"), nil
}

func value(r *http.Request, c item) (string, error) {
	scheme := r.URL.Scheme
	if scheme == "" {
		scheme = "http"
		if r.TLS != nil {
			scheme = "https"
		}
	}
	target := r.RequestURI
	if target == "" {
		target = r.URL.RequestURI()
	}
	path, query, _ := strings.Cut(target, "?")
	authority := strings.ToLower(r.Host)
	if port := map[string]string{"http": ":80", "https": ":443"}[scheme]; port != "" {
		authority, _ = strings.CutSuffix(authority, port)
	}
	switch c.value {
	case "@method":
		return r.Method, nil
	case "@authority":
		return authority, nil
	case "@scheme":
		return scheme, nil
	case "@path":
		return path, nil
	case "@query":
		return "?" + query, nil
	case "@request-target":
		return target, nil
	case "@target-uri":
		return scheme + "://" + authority + target, nil
	case "@query-param":
		q, err := url.ParseQuery(query)
		if err != nil || len(q[c.params.text("name")]) != 1 {
			return "", fmt.Errorf("no single query parameter %q", c.params.text("name"))
		}
		return url.PathEscape(q.Get(c.params.text("name"))), nil
	case "host":
		return r.Host, nil
	}
	values := r.Header.Values(c.value)
	if len(values) == 0 {
		return "", fmt.Errorf("covered component %s is not there", c.raw)
	}
	for i := range values {
		values[i] = strings.TrimSpace(values[i])
	}
	return strings.Join(values, ", "), nil
}

func check(key crypto.PublicKey, alg, base string, sig []byte) error {
	switch key := key.(type) {
	case ed25519.PublicKey:
		if alg != "" && alg != "ed25519" {
			return fmt.Errorf("alg %q does not fit the key", alg)
		}
		if !ed25519.Verify(key, []byte(base), sig) {
			return errors.New("ed25519 signature does not verify")
		}
		return nil
	case *rsa.PublicKey:
		if alg == "rsa-v1_5-sha256" {
			sum := sha256.Sum256([]byte(base))
			return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], sig)
		}
		sum := sha512.Sum512([]byte(base))
		return rsa.VerifyPSS(key, crypto.SHA512, sum[:], sig, &rsa.PSSOptions{SaltLength: 64})
	}
	return fmt.Errorf("no verification for keys of type %T", key)
}

func contentDigest(header string, body []byte) error {
	members, err := parseDictionary(header)
	if err != nil {
		return fmt.Errorf("Content-Digest: %w", err)
	}
	for _, m := range members {
		var want []byte
		switch m.key {
		case "sha-256":
			sum := sha256.Sum256(body)
			want = sum[:]
		case "sha-512":
			sum := sha512.Sum512(body)
			want = sum[:]
		default:
			return fmt.Errorf("Content-Digest: algorithm %q", m.key)
		}
		if string(want) != string(m.bytes) {
			return fmt.Errorf("Content-Digest: body has %s", base64.StdEncoding.EncodeToString(want))
		}
	}
	if len(members) == 0 {
		return errors.New("Content-Digest is covered but not there")
	}
	return nil
}
