package activitypub_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/activitypub"
	"fedpost/internal/protocol/httpsign"
	"fedpost/internal/protocol/outbound"
	"fedpost/internal/testkit/fediverse"
)

const inboxURL = "https://social.example/inbox"

// world is one inbox at social.example and a protocol that can reach it.
type world struct {
	sender
	network *fediverse.Network
	inbox   *fediverse.Inbox
	forms   *forms
}

func newWorld(t *testing.T) world {
	t.Helper()
	w := world{network: fediverse.NewNetwork(), inbox: fediverse.NewInbox(fediverse.NewKeys().Public()), forms: newForms()}
	w.network.Add("social.example", w.inbox)
	client, err := outbound.New(outbound.Config{UserAgent: "fedpost/test (+https://fedpost.example/)", Transport: w.network})
	if err != nil {
		t.Fatal(err)
	}
	w.Protocol = &activitypub.Protocol{Keys: fediverse.NewKeys(), Client: client, Forms: w.forms, Now: time.Now, Date: time.Now}
	return w
}

func note(body string) activity.Activity {
	return activity.Activity{ID: "01J", Protocol: activity.ActivityPub, Body: body, Options: activity.Options{KeyID: fediverse.RSAKeyID}}
}

func to(inbox string) activity.Target { return activity.Target{Inbox: inbox, Stands: 1} }

// TestBodiesArriveByteForByte sends every fixture in both forms and with both
// kinds of key over a real HTTP server.
func TestBodiesArriveByteForByte(t *testing.T) {
	for _, form := range []httpsign.Form{httpsign.Cavage, httpsign.RFC9421} {
		for _, key := range []string{fediverse.RSAKeyID, fediverse.Ed25519KeyID} {
			inbox := fediverse.NewInbox(fediverse.NewKeys().Public()).Takes(form)
			server := httptest.NewServer(inbox)
			defer server.Close()
			client, err := outbound.New(outbound.Config{UserAgent: "fedpost/test", AllowPrivate: true})
			if err != nil {
				t.Fatal(err)
			}
			known := newForms()
			known.TookForm(to(server.URL), "another", string(form), time.Now().Add(time.Hour))
			p := sender{&activitypub.Protocol{Keys: fediverse.NewKeys(), Client: client, Forms: known, Now: time.Now, Date: time.Now}}
			for name, body := range fediverse.Fixtures() {
				a := note(body)
				a.KeyID = key
				o := p.Attempt(t.Context(), a, to(server.URL+"/users/a%20b/inbox?x=1&y=%2F"))
				if o.Class != outcome.Delivered || o.Status != http.StatusAccepted {
					t.Errorf("%s %s %s: %+v", name, form, key, o)
				}
				posts := inbox.Posts()
				if got := posts[len(posts)-1]; got.Body != body || got.Form != form || got.KeyID != key {
					t.Errorf("%s: body of %d bytes arrived as %d bytes, form %s, key %s", name, len(body), len(got.Body), got.Form, got.KeyID)
				}
			}
			if n := len(inbox.Posts()); n != len(fediverse.Fixtures()) {
				t.Errorf("%d POSTs for %d activities", n, len(fediverse.Fixtures()))
			}
		}
	}
}

// TestHTTP2OverTLS: host, scheme and target are written in pseudo-headers there.
func TestHTTP2OverTLS(t *testing.T) {
	inbox := fediverse.NewInbox(fediverse.NewKeys().Public())
	server := httptest.NewUnstartedServer(inbox)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	client, err := outbound.New(outbound.Config{UserAgent: "fedpost/test", AllowPrivate: true, RootCAs: roots})
	if err != nil {
		t.Fatal(err)
	}
	p := sender{&activitypub.Protocol{Keys: fediverse.NewKeys(), Client: client, Forms: newForms(), Now: time.Now, Date: time.Now}}
	for _, key := range []string{fediverse.RSAKeyID, fediverse.Ed25519KeyID} {
		a := note(fediverse.Fixture("peertube-create-video"))
		a.KeyID = key
		if o := p.Attempt(t.Context(), a, to(server.URL+"/inbox?a=b")); o.Class != outcome.Delivered || o.Note != "" {
			t.Errorf("%s: %+v", key, o)
		}
	}
	for _, got := range inbox.Posts() {
		if got.Proto != "HTTP/2.0" || got.Body != fediverse.Fixture("peertube-create-video") {
			t.Errorf("%s, %d bytes", got.Proto, len(got.Body))
		}
	}
}

func TestFixturesAreWhatTheyShouldBe(t *testing.T) {
	all := strings.Builder{}
	for name, body := range fediverse.Fixtures() {
		all.WriteString(body)
		if name == "peertube-create-video" && (len(body) < 180_000 || len(body) > 260_000) {
			t.Errorf("%s has %d bytes", name, len(body))
		}
	}
	for _, hard := range []string{"<p>", "&&", "\u2028", "🌱", `\u`, `\/`, "\n  ", "}\n"} {
		if !strings.Contains(all.String(), hard) {
			t.Errorf("no fixture has %q", hard)
		}
	}
}

func TestRequestIsWhatServersExpect(t *testing.T) {
	w := newWorld(t)
	if o := w.Attempt(t.Context(), note(fediverse.Fixture("mastodon-follow")), to(inboxURL)); o.Class != outcome.Delivered {
		t.Fatalf("the outcome is %+v, want delivered", o)
	}
	h := w.inbox.Posts()[0].Header
	for name, want := range map[string]string{
		"Content-Type": "application/activity+json",
		"User-Agent":   "fedpost/test (+https://fedpost.example/)",
		"Accept":       "application/activity+json, application/ld+json, application/json",
	} {
		if h.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, h.Get(name), want)
		}
	}
	if !strings.Contains(h.Get("Signature"), `algorithm="rsa-sha256",headers="(request-target) host date digest content-type"`) {
		t.Errorf("Signature: %s", h.Get("Signature"))
	}
}

func TestNoSecondPostAfterNoAnswer(t *testing.T) {
	w := newWorld(t)
	w.inbox.Always(fediverse.Reset())
	o := w.Attempt(t.Context(), note(`{"id":"x"}`), to(inboxURL))
	if o.Class != outcome.Retry || o.Reason != outcome.ConnReset || !o.HostFault() {
		t.Errorf("the outcome is %+v, want a retry after a reset, the host's fault", o)
	}
	if n := len(w.inbox.Posts()); n != 1 {
		t.Errorf("%d POSTs", n)
	}
}

// doubted is a key source that counts doubts.
type doubted struct {
	fediverse.Keys
	count map[string]int
}

func (d doubted) Doubt(id string) { d.count[id]++ }

// TestAKeyIsReadAnewAfterA401: it may have been replaced a moment ago.
func TestAKeyIsReadAnewAfterA401(t *testing.T) {
	for status, want := range map[int]int{202: 0, 401: 1, 403: 0, 404: 0, 500: 0} {
		w := newWorld(t)
		keys := doubted{fediverse.NewKeys(), map[string]int{}}
		w.Keys = keys
		w.inbox.Always(fediverse.Status(status))
		w.Attempt(t.Context(), note(`{"id":"x"}`), to(inboxURL))
		if n := keys.count[fediverse.RSAKeyID]; n != want {
			t.Errorf("%d: the key was doubted %d times, want %d", status, n, want)
		}
	}
}

func TestRedirects(t *testing.T) {
	for _, c := range []struct {
		name  string
		step  fediverse.Step
		posts int
		class outcome.Class
	}{
		{"307 on the same origin is signed again", fediverse.Redirect(307, "/new?a=1"), 2, outcome.Delivered},
		{"308 on the same origin, other spelling", fediverse.Redirect(308, "https://SOCIAL.example:443/new"), 2, outcome.Delivered},
		{"307 to another origin", fediverse.Redirect(307, "https://evil.example/inbox"), 1, outcome.Retry},
		{"308 to another origin", fediverse.Redirect(308, "https://evil.example/inbox"), 1, outcome.Refused},
		{"308 to another port", fediverse.Redirect(308, "https://social.example:8443/inbox"), 1, outcome.Refused},
		{"308 to plain http", fediverse.Redirect(308, "http://social.example/inbox"), 1, outcome.Refused},
		{"308 with user information", fediverse.Redirect(308, "https://a:b@social.example/inbox"), 1, outcome.Refused},
		{"301 would be a GET", fediverse.Redirect(301, "/new"), 1, outcome.Refused},
		{"302", fediverse.Redirect(302, "/login"), 1, outcome.Retry},
		{"303", fediverse.Redirect(303, "/login"), 1, outcome.Retry},
		{"307 without a place", fediverse.Status(307), 1, outcome.Retry},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			evil := fediverse.NewInbox(fediverse.NewKeys().Public())
			w.network.Add("evil.example", evil)
			w.inbox.Then(c.step)
			o := w.Attempt(t.Context(), note(`{"id":"x"}`), to(inboxURL))
			if o.Class != c.class {
				t.Errorf("the outcome is %+v, want class %s", o, c.class)
			}
			if n := len(w.inbox.Posts()); n != c.posts {
				t.Errorf("%d POSTs, want %d", n, c.posts)
			}
			if n := len(evil.Posts()); n != 0 {
				t.Errorf("%d POSTs to another origin", n)
			}
		})
	}
}

func TestRedirectLoopEnds(t *testing.T) {
	w := newWorld(t)
	w.inbox.Always(fediverse.Redirect(307, "/inbox"))
	if o := w.Attempt(t.Context(), note(`{"id":"x"}`), to(inboxURL)); o.Class != outcome.Retry || o.Status != 307 {
		t.Errorf("the outcome is %+v, want a retry after 307", o)
	}
	if n := len(w.inbox.Posts()); n != 2 {
		t.Errorf("%d POSTs", n)
	}
}

func TestAPauseIsWaitedForASecondLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.inbox.Then(fediverse.RetryAfter(429, "120"), fediverse.RetryAfter(503, "30"), fediverse.Status(503))
		o := w.Attempt(t.Context(), note(`{"id":"x"}`), to(inboxURL))
		if o.Class != outcome.Throttled || !o.RetryAfter.Equal(time.Now().Add(2*time.Minute+time.Second)) {
			t.Errorf("429: %+v", o)
		}
		o = w.Attempt(t.Context(), note(`{"id":"x"}`), to(inboxURL))
		if o.Class != outcome.Throttled || !o.RetryAfter.Equal(time.Now().Add(31*time.Second)) {
			t.Errorf("503 with Retry-After: %+v", o)
		}
		o = w.Attempt(t.Context(), note(`{"id":"x"}`), to(inboxURL))
		if o.Class != outcome.Retry || !o.RetryAfter.IsZero() || !o.HostFault() {
			t.Errorf("503: %+v", o)
		}
	})
}

// TestA403AndA501AreNoLimit: both refuse this one delivery, whatever header gives a time. A limit
// would delay everything that waits for the host.
func TestA403AndA501AreNoLimit(t *testing.T) {
	for status, posts := range map[int]int{403: 2, 501: 1} { // 403: one more in the other form
		for _, header := range []http.Header{nil, {"Retry-After": {"120"}}, {"X-Ratelimit-Reset": {"120"}, "X-Ratelimit-Remaining": {"0"}}} {
			w := newWorld(t)
			w.inbox.Always(fediverse.Step{Code: status, Header: header})
			o := w.Attempt(t.Context(), note(`{"id":"x"}`), to(inboxURL))
			if o.Class != outcome.Refused || o.Status != status || !o.RetryAfter.IsZero() || o.HostFault() {
				t.Errorf("%d with %v: %+v", status, header, o)
			}
			if n := len(w.inbox.Posts()); n != posts {
				t.Errorf("%d with %v: %d POSTs, want %d", status, header, n, posts)
			}
		}
	}
}

func TestGoneSharedInboxIsTheWholeServer(t *testing.T) {
	w := newWorld(t)
	w.inbox.Always(fediverse.Status(410))
	shared := to(inboxURL)
	shared.Shared = true
	if o := w.Attempt(t.Context(), note(`{"id":"x"}`), shared); o.Class != outcome.Gone {
		t.Errorf("shared: %+v", o)
	}
	if o := w.Attempt(t.Context(), note(`{"id":"x"}`), to(inboxURL)); o.Class != outcome.Refused {
		t.Errorf("personal: %+v", o)
	}
}

// TestHangingHostCostsOneTimeout also when it hangs only at the second form.
func TestHangingHostCostsOneTimeout(t *testing.T) {
	for _, steps := range [][]fediverse.Step{{fediverse.Hang()}, {fediverse.Status(401), fediverse.Hang()}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.inbox.Then(steps...)
			o := w.Attempt(t.Context(), note(`{"id":"x"}`), to(inboxURL))
			if o.Class != outcome.Retry || o.Reason != outcome.Timeout || o.Took != 15*time.Second || !o.HostFault() {
				t.Errorf("the outcome is %+v, want a timeout after 15 s, the host's fault", o)
			}
			synctest.Wait()
		})
	}
}

// TestOurOwnStopSaysNothingOfTheHost: a function that runs out of time must not open circuits.
func TestOurOwnStopSaysNothingOfTheHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.inbox.Always(fediverse.Hang())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		o := w.Attempt(ctx, note(`{"id":"x"}`), to(inboxURL))
		if o.Class != outcome.Retry || o.Try == outcome.Made || o.HostFault() || o.Took != time.Second {
			t.Errorf("the outcome is %+v, want a retry without an attempt after 1 s, not the host's fault", o)
		}
		synctest.Wait()
	})
}

func TestResponseIsKeptCleanAndShort(t *testing.T) {
	w := newWorld(t)
	step := fediverse.Status(500)
	step.Body = "  \x1b[2J\x00oops\r\n\tünterwegs \xff\u202e" + strings.Repeat("é", 3000)
	w.inbox.Always(step)
	o := w.Attempt(t.Context(), note(`{"id":"x"}`), to(inboxURL))
	if !strings.HasPrefix(o.Response, "\ufffd[2J\ufffdoops ünterwegs \ufffd\ufffdé") || len(o.Response) > outcome.MaxText || len(o.Response) < outcome.MaxText-4 {
		t.Errorf("%d bytes: %q", len(o.Response), o.Response[:60])
	}
}

type brokenKeys struct{ err error }

func (b brokenKeys) SigningKey(context.Context, string) (crypto.Signer, error) { return nil, b.err }

func (brokenKeys) Doubt(string) {}
func (oneKey) Doubt(string)     {}

type oneKey struct{ crypto.Signer }

func (k oneKey) SigningKey(context.Context, string) (crypto.Signer, error) { return k.Signer, nil }

type failingSigner struct{ crypto.Signer }

func TestKeyTroubleSendsNothing(t *testing.T) {
	elliptic, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		keys  activitypub.KeySource
		keyID string
		class outcome.Class
		says  string
	}{
		{"a deleted key is final", fediverse.Keys{}, fediverse.RSAKeyID, outcome.Refused, "PUT /v1/keys"},
		{"a store that is away is not", brokenKeys{errors.New("table is away")}, fediverse.RSAKeyID, outcome.Retry, "table is away"},
		{"a key of a kind nobody verifies", oneKey{elliptic}, fediverse.RSAKeyID, outcome.Refused, "use RSA or Ed25519"},
		{"a key id that cannot be quoted", fediverse.Keys{"a\"b": fediverse.NewKeys()[fediverse.RSAKeyID]}, "a\"b", outcome.Refused, "percent-encode"},
		{"a signer that fails", oneKey{failing()}, fediverse.RSAKeyID, outcome.Retry, "vault is sealed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.Keys = c.keys
			a := note(`{"id":"x"}`)
			a.KeyID = c.keyID
			o := w.Attempt(t.Context(), a, to(inboxURL))
			if o.Class != c.class || o.Try == outcome.Made || o.HostFault() || !strings.Contains(o.Err, c.says) {
				t.Errorf("the outcome is %+v, want class %s without an attempt, saying %q", o, c.class, c.says)
			}
			if n := len(w.inbox.Posts()); n != 0 {
				t.Errorf("%d POSTs", n)
			}
		})
	}
}

func TestUnusableInboxIsRefused(t *testing.T) {
	w := newWorld(t)
	for _, inbox := range []string{"http://social.example/inbox", "https://a:b@social.example/", "https:///x", "ftp://social.example/", "://", "/inbox", "https://social.example/?a b"} {
		o := w.Attempt(t.Context(), note(`{"id":"x"}`), to(inbox))
		if o.Class != outcome.Refused || o.Reason != outcome.BadRequest || o.Try == outcome.Made {
			t.Errorf("%s: %+v", inbox, o)
		}
	}
	if n := len(w.inbox.Posts()); n != 0 {
		t.Errorf("%d POSTs", n)
	}
}

// TestOneDeliveryManyTargets runs under -race: a Delivery is shared.
func TestOneDeliveryManyTargets(t *testing.T) {
	w := newWorld(t)
	w.inbox.Takes(httpsign.RFC9421)
	d := w.Prepare(t.Context(), note(fediverse.Fixture("lemmy-announce")))
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if o := d(context.Background(), to(inboxURL), 1); o.Class != outcome.Delivered {
				t.Errorf("the outcome is %+v, want delivered", o)
			}
		})
	}
	wg.Wait()
	if n := len(w.inbox.Accepted()); n != 50 {
		t.Errorf("%d accepted", n)
	}
}

func (failingSigner) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	return nil, errors.New("vault is sealed")
}

func failing() crypto.Signer { return failingSigner{fediverse.NewKeys()[fediverse.RSAKeyID]} }
