package activitypub_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/activitypub"
	"fedpost/internal/protocol/httpsign"
	"fedpost/internal/testkit/fediverse"
)

// TestSecondFormOnlyAfter401And403 goes through every status there is.
func TestSecondFormOnlyAfter401And403(t *testing.T) {
	for status := 200; status < 600; status++ {
		w := newWorld(t)
		w.inbox.Always(fediverse.Status(status))
		o := w.Attempt(t.Context(), note(`{"id":"x"}`), to(inboxURL))
		want := 1
		if status == 401 || status == 403 {
			want = 2
			class := map[int]outcome.Class{401: outcome.Unverified, 403: outcome.Refused}[status]
			if o.Class != class || o.Note == "" {
				t.Errorf("%d: class %s, want %s; note %q", status, o.Class, class, o.Note)
			}
		}
		if n := len(w.inbox.Posts()); n != want {
			t.Errorf("%d: %d POSTs, want %d", status, n, want)
		}
		if o.Status != status {
			t.Errorf("%d: outcome has status %d", status, o.Status)
		}
		if delivered := o.Class == outcome.Delivered; delivered && o.Err != "" || !delivered && o.Err == "" {
			t.Errorf("%d: class %s has error %q; all but delivered have one", status, o.Class, o.Err)
		}
	}
}

func TestAHostThatHasRefusedAllFormsGetsOneRequest(t *testing.T) {
	w := newWorld(t)
	w.forms.once = true
	w.inbox.Always(fediverse.Status(403))
	o := w.Attempt(t.Context(), note(`{"id":"x"}`), to(inboxURL))
	if n := len(w.inbox.Posts()); n != 1 || o.Class != outcome.Refused || o.Vain() != 0 {
		t.Errorf("%d POSTs, %d of them in vain, and %s, want one POST, which ends the delivery", n, o.Vain(), o.Class)
	}
	for _, status := range []int{http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		w.network.Add("social.example", http.RedirectHandler("/other", status))
		if o := w.Attempt(t.Context(), note(`{"id":"x"}`), to(inboxURL)); o.Class != outcome.Retry || o.Requests != 1 {
			t.Errorf("after a %d, which is followed another day: %d requests and %s, want one and retry", status, o.Requests, o.Class)
		}
	}
}

func TestA400ThatNamesTheSignatureSpeaksAgainstTheKeyAndNotTheActivity(t *testing.T) {
	const lemmy = `{"error":"unknown","message":"Incoming activity has invalid signature"}`
	for _, c := range []struct {
		body  string
		posts int
		class outcome.Class
	}{
		{lemmy, 2, outcome.Unverified},
		{"Http Signature is expired", 2, outcome.Unverified},
		{`{"error":"unknown","message":"missing field object"}`, 1, outcome.Doubtful},
		{`bad: {"type":"Create","signature":{"type":"RsaSignature2017"}}`, 1, outcome.Doubtful},
		{strings.Repeat("x", outcome.MaxText) + " signature", 1, outcome.Doubtful},
		{"", 1, outcome.Doubtful},
	} {
		for key, about := range map[string]string{fediverse.RSAKeyID: "answered 400 Bad Request", fediverse.Ed25519KeyID: "Ed25519"} {
			w, posts := newWorld(t), 0
			w.network.Add("social.example", http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
				posts++
				rw.WriteHeader(http.StatusBadRequest)
				fmt.Fprint(rw, c.body)
			}))
			a := note(`{"id":"x"}`)
			a.KeyID = key
			o := w.Attempt(t.Context(), a, to(inboxURL))
			if posts != c.posts || o.Class != c.class || !strings.Contains(o.Err, about) {
				t.Errorf("%.60q, %s: %d POSTs and %s (%s), want %d and %s", c.body, key, posts, o.Class, o.Err, c.posts, c.class)
			}
		}
	}
}

// TestAServerThatAnswers400ToAFormGetsTheOther and then that one first.
func TestAServerThatAnswers400ToAFormGetsTheOther(t *testing.T) {
	w, posts := newWorld(t), 0
	w.network.Add("social.example", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if posts++; r.Header.Get("Signature-Input") != "" {
			http.Error(rw, "no valid Signature header", http.StatusBadRequest)
		}
	}))
	a := note(`{"id":"x"}`)
	a.KeyID = fediverse.Ed25519KeyID
	if o := w.Attempt(t.Context(), a, to(inboxURL)); o.Class != outcome.Delivered || posts != 2 || w.forms.knows("social.example") != httpsign.Cavage {
		t.Errorf("after %d POSTs %s (%s), remembered %q, want 2, delivered, cavage", posts, o.Class, o.Err, w.forms.knows("social.example"))
	}
}

// TestPathAloneIsSignedAfter401 to a URL with a query, and after nothing else:
// Fedify, bovine and apsig leave the query out of what they verify.
func TestPathAloneIsSignedAfter401(t *testing.T) {
	const withQuery = inboxURL + "?user=a%2Fb"
	w := newWorld(t)
	w.inbox.Takes(httpsign.CavagePath)
	for _, posts := range []int{3, 1} { // then the form is known
		before := len(w.inbox.Posts())
		o := w.Attempt(t.Context(), note(`{"id":"x"}`), to(withQuery))
		if o.Class != outcome.Delivered {
			t.Errorf("the outcome is %+v, want delivered", o)
		}
		if n := len(w.inbox.Posts()) - before; n != posts {
			t.Errorf("%d POSTs, want %d", n, posts)
		}
	}
	if f := w.forms.knows("social.example"); f != httpsign.CavagePath {
		t.Errorf("remembered %q", f)
	}
	w.inbox.Takes(httpsign.Cavage, httpsign.CavagePath)
	if o := w.Attempt(t.Context(), note(`{"id":"x"}`), to(inboxURL)); o.Class != outcome.Delivered || o.Note != "" {
		t.Errorf("without a query it is the draft: %+v", o)
	}

	for _, c := range []struct {
		answers []int
		posts   int
		status  int // reported
	}{
		{[]int{401, 401, 401}, 3, 401},
		{[]int{401, 403, 401}, 3, 403},
		{[]int{401, 401, 404}, 3, 404},
		{[]int{401, 401, 503}, 3, 503},
		{[]int{401, 404}, 2, 404},
		{[]int{401, 410}, 2, 410},
		{[]int{401, 429}, 2, 429},
		{[]int{401, 500}, 2, 500},
		{[]int{401, 202}, 2, 202},
		{[]int{403, 401}, 2, 403},
		{[]int{403, 403}, 2, 403},
		{[]int{403, 202}, 2, 202},
		{[]int{404}, 1, 404},
		{[]int{410}, 1, 410},
		{[]int{429}, 1, 429},
		{[]int{500}, 1, 500},
		{[]int{503}, 1, 503},
		{[]int{202}, 1, 202},
	} {
		for _, key := range []string{fediverse.RSAKeyID, fediverse.Ed25519KeyID} {
			w, posts := newWorld(t), 0
			w.network.Add("social.example", http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
				posts++
				rw.WriteHeader(append(c.answers, 500)[posts-1])
			}))
			a := note(`{"id":"x"}`)
			a.KeyID = key
			o := w.Attempt(t.Context(), a, to(withQuery))
			if posts != c.posts || o.Status != c.status {
				t.Errorf("%v: %d POSTs, want %d; reported %d, want %d", c.answers, posts, c.posts, o.Status, c.status)
			}
		}
	}
}

// TestFormIsRememberedUntilItExpires follows one host that takes RFC 9421 only.
func TestFormIsRememberedUntilItExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.inbox.Takes(httpsign.RFC9421)
		send := func(posts int) {
			t.Helper()
			before := len(w.inbox.Posts())
			o := w.Attempt(t.Context(), note(`{"id":"x"}`), to(inboxURL))
			if o.Class != outcome.Delivered {
				t.Errorf("the outcome is %+v, want delivered", o)
			}
			if n := len(w.inbox.Posts()) - before; n != posts {
				t.Errorf("%d POSTs, want %d", n, posts)
			}
		}
		send(2) // the draft is refused
		send(1)
		time.Sleep(activitypub.FormTTL - time.Second)
		send(1)
		time.Sleep(time.Second)
		send(2) // forgotten, so asked again
		w.inbox.Takes(httpsign.Cavage)
		send(2) // it changed its mind
		send(1)
		if f := w.forms.knows("social.example"); f != httpsign.Cavage {
			t.Errorf("remembered %q", f)
		}
	})
}

func TestFirstFormDependsOnTheKey(t *testing.T) {
	for key, want := range map[string]httpsign.Form{fediverse.RSAKeyID: httpsign.Cavage, fediverse.Ed25519KeyID: httpsign.RFC9421} {
		w := newWorld(t)
		a := note(`{"id":"x"}`)
		a.KeyID = key
		if o := w.Attempt(t.Context(), a, to(inboxURL)); o.Class != outcome.Delivered {
			t.Errorf("the outcome is %+v, want delivered", o)
		}
		if p := w.inbox.Posts(); len(p) != 1 || p[0].Form != want {
			t.Errorf("%s: %d POSTs, first of form %s", key, len(p), p[0].Form)
		}
	}
}

func TestFormIsRememberedOnlyIfItHelped(t *testing.T) {
	w := newWorld(t)
	w.inbox.Always(fediverse.Status(403))
	w.Attempt(t.Context(), note(`{"id":"x"}`), to(inboxURL))
	w.inbox.Then(fediverse.Status(401), fediverse.Status(500))
	w.Attempt(t.Context(), note(`{"id":"x"}`), to(inboxURL))
	if f := w.forms.knows("social.example"); f != "" {
		t.Errorf("remembered %q", f)
	}
}

// TestRefusalReportsTheMoreUsefulAnswer: a server that knows one form only
// answers "no signature" to the other.
func TestRefusalReportsTheMoreUsefulAnswer(t *testing.T) {
	say := func(code int, body string) fediverse.Step { return fediverse.Step{Code: code, Body: body} }
	for _, c := range []struct {
		first, second fediverse.Step
		want          string
	}{
		{say(401, "key not found"), say(401, "no signature"), "401 key not found"},
		{say(403, "blocked"), say(401, "no signature"), "403 blocked"},
		{say(401, "unknown form"), say(403, "blocked"), "403 blocked"},
		{say(403, "blocked"), say(403, "also blocked"), "403 blocked"},
		{say(401, "unknown form"), say(404, "nobody here"), "404 nobody here"},
	} {
		w := newWorld(t)
		w.inbox.Then(c.first, c.second)
		o := w.Attempt(t.Context(), note(`{"id":"x"}`), to(inboxURL))
		if got := fmt.Sprint(o.Status, " ", o.Response); got != c.want {
			t.Errorf("%d and then %d: %q, want %q", c.first.Code, c.second.Code, got, c.want)
		}
		if unverified := o.Class == outcome.Unverified; unverified && o.Status != 401 || !unverified && o.Status == 401 {
			t.Errorf("%d and then %d: status %d is of class %s", c.first.Code, c.second.Code, o.Status, o.Class)
		}
	}
}

// TestASignatureThatAServerAsksForIsSentOnce: after a 401 with Accept-Signature (RFC 9421,
// section 5), and not again when the server asks once more.
func TestASignatureThatAServerAsksForIsSentOnce(t *testing.T) {
	asks := fediverse.Step{Code: 401, Header: http.Header{"Accept-Signature": {`mine=("@path");nonce="n-1"`}}}
	for name, c := range map[string]struct {
		script []fediverse.Step
		posts  int
		want   outcome.Class
	}{
		"taken":       {[]fediverse.Step{asks, fediverse.Status(202)}, 2, outcome.Delivered},
		"asked again": {[]fediverse.Step{asks, asks}, 2, outcome.Unverified},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.inbox.Then(c.script...)
			o := w.Attempt(t.Context(), note(`{"id":"x"}`), to(inboxURL))
			posts := w.inbox.Posts()
			if o.Class != c.want || len(posts) != c.posts {
				t.Fatalf("class %s after %d POSTs, want %s after %d: %+v", o.Class, len(posts), c.want, c.posts, o)
			}
			if input := posts[1].Header.Get("Signature-Input"); !strings.HasPrefix(input, "mine=(") || !strings.Contains(input, `;nonce="n-1"`) || posts[1].Refused != nil {
				t.Errorf("the second POST has Signature-Input %s (%v), want the signature that was asked for", input, posts[1].Refused)
			}
		})
	}
}

// TestASignatureOfWhatARequestDoesNotHaveIsNotMade: a host may ask with Accept-Signature for a header
// that only the request it answered had. As a fault of this machine, the attempt would not be counted.
func TestASignatureOfWhatARequestDoesNotHaveIsNotMade(t *testing.T) {
	for _, name := range []string{"digest", "signature", "user-agent"} {
		w := newWorld(t)
		w.inbox.Always(fediverse.Step{Code: 401, Header: http.Header{"Accept-Signature": {`mine=("` + name + `")`}}})
		o := w.Attempt(t.Context(), note(`{"id":"x"}`), to(inboxURL))
		if n := len(w.inbox.Posts()); n != 2 || o.Try != outcome.Made || o.Vain() != n || o.Status != 401 {
			t.Errorf("%s: %d requests, of which %d count: %+v", name, n, o.Vain(), o)
		}
	}
}
