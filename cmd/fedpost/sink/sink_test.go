package sink

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-fed/httpsig"
)

var now = time.Date(2026, 11, 24, 9, 0, 0, 0, time.UTC)

const body = `{"id":"https://social.example/a/1","type":"Like"}`

// post is a signed request; covered are the headers of its signature.
func post(t *testing.T, key crypto.PrivateKey, covered ...string) *http.Request {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://inbox.example/users/mo/inbox", strings.NewReader(body))
	r.Header.Set("Date", now.Format(http.TimeFormat))
	r.Header.Set("Host", r.Host)
	signer, _, err := httpsig.NewSigner([]httpsig.Algorithm{httpsig.ED25519}, httpsig.DigestSha256, covered, httpsig.Signature, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := signer.SignRequest(key, "frida", r, []byte(body)); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestTheSinkTakesWhatIsSignedAndNothingElse.
func TestTheSinkTakesWhatIsSignedAndNothingElse(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, stranger, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	good := func() *http.Request { return post(t, private, signed...) }
	for name, c := range map[string]struct {
		request *http.Request
		change  func(r *http.Request)
		status  int
		says    string
	}{
		"signed":             {good(), func(*http.Request) {}, 202, ""},
		"no signature":       {good(), func(r *http.Request) { r.Header.Del("Signature") }, 401, "no signature"},
		"RFC 9421":           {good(), func(r *http.Request) { r.Header.Set("Signature-Input", "x") }, 401, "draft-cavage"},
		"another body":       {good(), func(r *http.Request) { r.Body = http.NoBody }, 401, "digest"},
		"another path":       {good(), func(r *http.Request) { r.URL.Path = "/users/kim/inbox" }, 401, "signature is wrong"},
		"old":                {good(), func(r *http.Request) { r.Header.Set("Date", now.Add(-time.Hour).Format(http.TimeFormat)) }, 401, "off by 1h"},
		"another key":        {post(t, stranger, signed...), func(*http.Request) {}, 401, "signature is wrong"},
		"digest not signed":  {post(t, private, signed[:3]...), func(*http.Request) {}, 401, "header digest is not signed"},
		"a key nobody knows": {good(), func(r *http.Request) { replace(r, `keyId="frida"`, `keyId="kim"`) }, 401, "no such key"},
		"a look":             {good(), func(r *http.Request) { r.Method = http.MethodGet }, 405, "takes POST"},
		"too much":           {good(), func(r *http.Request) { r.Body = http.MaxBytesReader(nil, endless{}, 2*maxBody) }, 400, "too large"},
	} {
		c.change(c.request)
		var took []Post
		var refused error
		in := Inbox{
			Key: func(_ context.Context, id string) (crypto.PublicKey, error) {
				if id != "frida" {
					return nil, errors.New("no such key")
				}
				return public, nil
			},
			Answer: func(w http.ResponseWriter, _ *http.Request, p Post) {
				took = append(took, p)
				w.WriteHeader(http.StatusAccepted)
			},
			Refused: func(_ *http.Request, why error) { refused = why },
			Now:     func() time.Time { return now },
		}
		answer := httptest.NewRecorder()
		in.ServeHTTP(answer, c.request)
		if answer.Code != c.status || !strings.Contains(answer.Body.String(), c.says) {
			t.Errorf("%s: answered %d %s, want %d %s", name, answer.Code, answer.Body, c.status, c.says)
		}
		if takes := c.status == 202; takes && len(took) != 1 || !takes && len(took) > 0 {
			t.Errorf("%s: answered %d and took %+v", name, c.status, took)
		}
		if refuses := c.status == 401; refuses && refused == nil || !refuses && refused != nil {
			t.Errorf("%s: answered %d, and reported %v as refused", name, c.status, refused)
		}
		if want := (Post{KeyID: "frida", Bytes: len(body), ID: "https://social.example/a/1", Type: "Like"}); len(took) == 1 && took[0] != want {
			t.Errorf("%s: took %+v, want %+v", name, took[0], want)
		}
	}
}

func replace(r *http.Request, old, with string) {
	r.Header.Set("Signature", strings.Replace(r.Header.Get("Signature"), old, with, 1))
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte("x"), len(p))), nil }
func (endless) Close() error               { return nil }
