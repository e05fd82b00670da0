package httpsign_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-fed/httpsig"
	"pgregory.net/rapid"

	"fedpost/internal/protocol/httpsign"
	"fedpost/internal/testkit/fediverse/rfc9421"
	"fedpost/internal/testkit/property"
)

const keyID = "https://social.example/users/alice#main-key"

var at = time.Date(2026, 11, 20, 12, 0, 0, 0, time.FixedZone("CET", 3600))

var keys = sync.OnceValue(func() map[string]crypto.Signer {
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	_, e, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	return map[string]crypto.Signer{"rsa": r, "ed25519": e}
})

func signed(t testing.TB, key crypto.Signer, form httpsign.Form, method, target, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(method, target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/activity+json")
	s, err := httpsign.New(key, keyID)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Sign(r, form, httpsign.DigestOf(body), at); err != nil {
		t.Fatal(err)
	}
	return r
}

// verify checks a request as its server received it, the draft's form with a
// library that is not ours.
func verify(r *http.Request, body string, key crypto.PublicKey) error {
	if r.Header.Get("Signature-Input") != "" {
		s, err := rfc9421.Verify(r, []byte(body), func(string) (crypto.PublicKey, error) { return key, nil })
		if err == nil && (s.KeyID != keyID || s.Created != at.Unix() || !s.Covers("@method", "@target-uri", "content-digest")) {
			return errors.New("signature does not say what it should")
		}
		return err
	}
	// go-fed leaves its own mark in the header.
	defer r.Header.Del("Host")
	v, err := httpsig.NewVerifier(r)
	if err != nil {
		return err
	}
	if v.KeyId() != keyID {
		return errors.New("key id " + v.KeyId())
	}
	if r.Header.Get("Digest") != httpsign.DigestOf(body).Header() {
		return errors.New("digest is not of this body")
	}
	if _, ok := key.(ed25519.PublicKey); ok {
		return v.Verify(key, httpsig.ED25519)
	}
	return v.Verify(key, httpsig.RSA_SHA256)
}

// TestSignedRequestsVerifyAfterTheWire sends requests through a real server, so
// that whatever net/http makes of host and target is what was signed.
func TestSignedRequestsVerifyAfterTheWire(t *testing.T) {
	const body = "{\"content\":\"<p>ü\u2028 & 🌱</p>\"}\n"
	for name, key := range keys() {
		for _, form := range []httpsign.Form{httpsign.Cavage, httpsign.RFC9421} {
			got := make(chan error, 1)
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				b, err := io.ReadAll(r.Body)
				if err == nil {
					err = verify(r, string(b), key.Public())
				}
				got <- err
			}))
			for _, path := range []string{"", "/", "/inbox", "/users/alice/inbox?a=b&c=%2F%20"} {
				res, err := http.DefaultClient.Do(signed(t, key, form, http.MethodPost, server.URL+path, body))
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				if err := <-got; err != nil {
					t.Errorf("%s %s %q: %v", name, form, path, err)
				}
			}
			server.Close()
		}
	}
}

// TestAnyChangeBreaksTheSignature: of what is covered, and nothing else.
func TestAnyChangeBreaksTheSignature(t *testing.T) {
	changes := map[string]func(*http.Request){
		"method":         func(r *http.Request) { r.Method = http.MethodPut },
		"path":           func(r *http.Request) { r.URL.Path += "x" },
		"query":          func(r *http.Request) { r.URL.RawQuery += "&x" },
		"host":           func(r *http.Request) { r.Host = "other.example" },
		"Digest":         func(r *http.Request) { r.Header.Set("Digest", httpsign.DigestOf("y").Header()) },
		"Content-Digest": func(r *http.Request) { r.Header.Set("Content-Digest", httpsign.DigestOf("y").ContentHeader()) },
		"Date":           func(r *http.Request) { r.Header.Set("Date", "Fri, 20 Nov 2026 11:00:01 GMT") },
		"Content-Type":   func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
		"created": func(r *http.Request) {
			r.Header.Set("Signature-Input", strings.Replace(r.Header.Get("Signature-Input"), "created=1", "created=2", 1))
		},
		"scheme": func(r *http.Request) { r.URL.Scheme = "http" },
		"Accept": func(r *http.Request) { r.Header.Set("Accept", "*/*") },
	}
	uncovered := map[httpsign.Form]string{
		httpsign.Cavage:  "Accept Content-Digest created scheme",
		httpsign.RFC9421: "Accept Digest Date Content-Type",
	}
	for name, key := range keys() {
		for form, free := range uncovered {
			for what, change := range changes {
				r := signed(t, key, form, http.MethodPost, "https://b.example/inbox?a", "x")
				if err := verify(r, "x", key.Public()); err != nil {
					t.Fatalf("%s %s: %v", name, form, err)
				}
				change(r)
				if what == "Digest" && form == httpsign.Cavage {
					// Verified with the body that belongs to the digest.
					if err := verify(r, "y", key.Public()); err == nil {
						t.Errorf("%s %s: verifies with another %s", name, form, what)
					}
					continue
				}
				if err := verify(r, "x", key.Public()); (err == nil) != strings.Contains(free, what) {
					t.Errorf("%s %s: with another %s: %v", name, form, what, err)
				}
			}
			r := signed(t, key, form, http.MethodPost, "https://b.example/inbox?a", "x")
			if verify(r, "y", key.Public()) == nil {
				t.Errorf("%s %s: verifies with another body", name, form)
			}
		}
	}
}

// TestSigningAgainReplacesTheFirstSignature in whichever order.
func TestSigningAgainReplacesTheFirstSignature(t *testing.T) {
	key := keys()["rsa"]
	s, err := httpsign.New(key, keyID)
	if err != nil {
		t.Fatal(err)
	}
	for form, other := range map[httpsign.Form]httpsign.Form{
		httpsign.Cavage: httpsign.RFC9421, httpsign.RFC9421: httpsign.CavagePath, httpsign.CavagePath: httpsign.Cavage,
	} {
		r := signed(t, key, form, http.MethodPost, "https://b.example/inbox?a", "x")
		if err := s.Sign(r, other, httpsign.DigestOf("y"), at); err != nil {
			t.Fatal(err)
		}
		fresh := signed(t, key, other, http.MethodPost, "https://b.example/inbox?a", "y")
		for _, h := range []string{"Signature", "Signature-Input", "Digest", "Content-Digest", "Date"} {
			if r.Header.Get(h) != fresh.Header.Get(h) {
				t.Errorf("%s, then %s: %s is %q, want %q", form, other, h, r.Header.Get(h), fresh.Header.Get(h))
			}
		}
	}
}

func TestHeadersAsTheyAreWritten(t *testing.T) {
	key := keys()["ed25519"]
	r := signed(t, key, httpsign.RFC9421, http.MethodPost, "https://B.example:443/inbox", "x")
	want := `sig1=("@method" "@target-uri" "@authority" "content-digest");created=1795172400;keyid="https://social.example/users/alice#main-key";alg="ed25519"`
	if got := r.Header.Get("Signature-Input"); got != want {
		t.Errorf("Signature-Input: %s\nwant %s", got, want)
	}
	if got := r.Header.Get("Date"); got != "Fri, 20 Nov 2026 11:00:00 GMT" {
		t.Errorf("Date: %s", got)
	}
	// A receiver puts the target URI together without the default port.
	r.Host, r.URL = "b.example", &url.URL{Scheme: "https", Host: "b.example", Path: "/inbox"}
	if err := verify(r, "x", key.Public()); err != nil {
		t.Error(err)
	}
	r = signed(t, key, httpsign.Cavage, http.MethodPost, "https://b.example/inbox", "x")
	if got := r.Header.Get("Signature"); !strings.HasPrefix(got, `keyId="`+keyID+`",algorithm="hs2019",headers="(request-target) host date digest content-type",signature="`) {
		t.Errorf("Signature: %s", got)
	}
}

func TestUnusableKeys(t *testing.T) {
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := httpsign.New(p256, keyID); !errors.Is(err, httpsign.ErrKey) {
		t.Errorf("P-256: %v", err)
	}
	for _, id := range []string{"", "a b", "a\"b", "a\\b", "a\nb", "a\x7f", "https://bücher.example/#k"} {
		if _, err := httpsign.New(keys()["ed25519"], id); !errors.Is(err, httpsign.ErrKey) {
			t.Errorf("key id %q: %v", id, err)
		}
	}
	s, err := httpsign.New(keys()["ed25519"], "plain,id;with=marks")
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, "https://b.example/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Sign(r, httpsign.Cavage, "", at); err == nil || !strings.Contains(err.Error(), "content-type") {
		t.Errorf("without Content-Type: %v", err)
	}
	if err := s.Sign(r, "morse", "", at); err == nil {
		t.Error("form morse is taken")
	}
}

// TestVerifierReadsWhatTheSignerWrites for any key id, target and body.
func TestVerifierReadsWhatTheSignerWrites(t *testing.T) {
	id := rapid.StringMatching(`[!#-\[\]-~]{1,60}`)
	property.Check(t, func(t *rapid.T) {
		key := keys()["ed25519"]
		keyID := id.Draw(t, "key id")
		s, err := httpsign.New(key, keyID)
		if err != nil {
			t.Fatal(err)
		}
		body := rapid.SliceOf(rapid.Byte()).Draw(t, "body")
		u := url.URL{Scheme: "https", Host: "b.example", Path: "/" + rapid.String().Draw(t, "path"), RawQuery: url.QueryEscape(rapid.String().Draw(t, "query"))}
		r, err := http.NewRequest(http.MethodPost, u.String(), bytes.NewReader(body))
		if err != nil {
			t.Skip("not a URL")
		}
		if err := s.Sign(r, httpsign.RFC9421, httpsign.DigestOf(string(body)), at); err != nil {
			t.Fatal(err)
		}
		var asked string
		_, err = rfc9421.Verify(r, body, func(id string) (crypto.PublicKey, error) { asked = id; return key.Public(), nil })
		if err != nil || asked != keyID {
			t.Fatalf("%v, key id %q", err, asked)
		}
	})
}

func FuzzVerifierDoesNotPanic(f *testing.F) {
	f.Add(`sig1=("@method" "@query-param";name="a");created=1;keyid="x"`, `sig1=:AAAA:`)
	f.Add(`sig1=(`, `sig1=:`)
	f.Fuzz(func(t *testing.T, input, signature string) {
		r := httptest.NewRequest(http.MethodPost, "https://b.example/inbox?a=b", nil)
		r.Header.Set("Signature-Input", input)
		r.Header.Set("Signature", signature)
		_, err := rfc9421.Verify(r, nil, func(string) (crypto.PublicKey, error) { return keys()["ed25519"].Public(), nil })
		if err == nil {
			t.Errorf("%q %q verifies", input, signature)
		}
	})
}

func BenchmarkSign(b *testing.B) {
	for name, key := range keys() {
		for _, form := range []httpsign.Form{httpsign.Cavage, httpsign.RFC9421} {
			b.Run(name+" "+string(form), func(b *testing.B) {
				r := signed(b, key, form, http.MethodPost, "https://b.example/inbox", "x")
				s, err := httpsign.New(key, keyID)
				if err != nil {
					b.Fatal(err)
				}
				d := httpsign.DigestOf("x")
				b.ReportAllocs()
				for b.Loop() {
					if err := s.Sign(r, form, d, at); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
