package fediverse

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"fedpost/internal/protocol/activitypub"
	"fedpost/internal/protocol/httpsign"
)

const body = `{"id":"https://a.example/1","type":"Create"}`

// arriving is a request as a server at b.example gets it.
func arriving(target, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://b.example"+target, strings.NewReader(body))
	r.RequestURI = target
	return r
}

func delivery(t *testing.T, key string, form httpsign.Form, at time.Time) *http.Request {
	t.Helper()
	r := arriving("/users/a%20b/inbox?x", body)
	r.Header.Set("Content-Type", activitypub.ContentType)
	s, err := httpsign.New(NewKeys()[key], key)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Sign(r, form, httpsign.DigestOf(body), at); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestInboxRefusesWhatRealServersRefuse: if the inbox accepted every request, tests that
// use the inbox would pass with wrong signatures.
func TestInboxRefusesWhatRealServersRefuse(t *testing.T) {
	now := time.Now()
	for _, key := range []string{RSAKeyID, Ed25519KeyID} {
		for _, form := range []httpsign.Form{httpsign.Cavage, httpsign.RFC9421} {
			for name, change := range map[string]func(*http.Request) *http.Request{
				"": nil, // accepted
				"another body": func(r *http.Request) *http.Request {
					other := arriving(r.RequestURI, body+" ")
					other.Header = r.Header
					return other
				},
				"another path": func(r *http.Request) *http.Request {
					other := arriving("/inbox?x", body)
					other.Header = r.Header
					return other
				},
				"another host":   func(r *http.Request) *http.Request { r.Host = "c.example"; return r },
				"another type":   func(r *http.Request) *http.Request { r.Header.Set("Content-Type", "application/json"); return r },
				"no signature":   func(r *http.Request) *http.Request { r.Header.Del("Signature"); return r },
				"an old date":    func(*http.Request) *http.Request { return delivery(t, key, form, now.Add(-6*time.Minute)) },
				"a date to come": func(*http.Request) *http.Request { return delivery(t, key, form, now.Add(6*time.Minute)) },
				"an unknown key": func(r *http.Request) *http.Request { return replace(r, key, "https://evil.example/#main-key") },
				"fewer headers": func(r *http.Request) *http.Request {
					return replace(replace(r, " digest", ""), ` "content-digest"`, "")
				},
				"the other's key": func(r *http.Request) *http.Request { return r },
			} {
				in := NewInbox(NewKeys().Public()).Clock(func() time.Time { return now })
				r := delivery(t, key, form, now)
				want := http.StatusAccepted
				if name == "the other's key" {
					in.keys[RSAKeyID], in.keys[Ed25519KeyID] = in.keys[Ed25519KeyID], in.keys[RSAKeyID]
				}
				if change != nil {
					r, want = change(r), http.StatusUnauthorized
				}
				w := httptest.NewRecorder()
				in.ServeHTTP(w, r)
				p := in.Posts()[0]
				if w.Code != want || p.Status != want {
					t.Errorf("%s %s, %q: answered %d, noted %d, want %d", key, form, name, w.Code, p.Status, want)
				}
				if accepted := want == http.StatusAccepted; accepted && p.Refused != nil || !accepted && p.Refused == nil {
					t.Errorf("%s %s, %q: answered %d, and refused for %v", key, form, name, w.Code, p.Refused)
				}
			}
		}
	}
}

// replace changes the signature's headers.
func replace(r *http.Request, old, with string) *http.Request {
	for _, h := range []string{"Signature", "Signature-Input"} {
		if v := r.Header.Get(h); v != "" {
			r.Header.Set(h, strings.Replace(v, old, with, 1))
		}
	}
	return r
}

func TestInboxFollowsItsScriptAndCounts(t *testing.T) {
	in := NewInbox(NewKeys().Public()).Then(Status(503), RetryAfter(429, "9")).Always(Status(200))
	for i, want := range []int{503, 429, 200, 200} {
		w := httptest.NewRecorder()
		in.ServeHTTP(w, delivery(t, RSAKeyID, httpsign.Cavage, time.Now()))
		if w.Code != want || (w.Header().Get("Retry-After") == "9") != (want == 429) {
			t.Errorf("POST %d: %d %v", i, w.Code, w.Header())
		}
	}
	// A bad signature uses up no step.
	in.Takes(httpsign.RFC9421).Then(Status(204))
	in.ServeHTTP(httptest.NewRecorder(), delivery(t, RSAKeyID, httpsign.Cavage, time.Now()))
	w := httptest.NewRecorder()
	in.ServeHTTP(w, delivery(t, RSAKeyID, httpsign.RFC9421, time.Now()))
	if w.Code != 204 {
		t.Errorf("%d after a refused signature", w.Code)
	}
	if n, ok := in.Count("https://a.example/1"), len(in.Accepted()); n != 6 || ok != 3 {
		t.Errorf("%d POSTs, %d accepted", n, ok)
	}
	if p := in.Posts()[0]; p.Body != body || p.KeyID != RSAKeyID || p.Form != httpsign.Cavage || p.URL != "b.example/users/a%20b/inbox?x" {
		t.Errorf("the POST is %+v, want the body by %s in the form %s", p, RSAKeyID, httpsign.Cavage)
	}
}
