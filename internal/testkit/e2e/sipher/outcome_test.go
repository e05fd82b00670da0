package sipher_test

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/protocol/sipher/crypto"
	"fedpost/internal/testkit/sipherpeer"
)

// row is one row of the outcome table: a job and its outcome.
type row struct {
	name     string
	settings map[string]string
	prepare  func(w *world)
	job      client.Submission

	state    string
	attempts int
	asked    []string // by us, of anybody
	removed  bool
	says     string // in the error of a record that is kept
	status   int
	note     string
}

var noIdentity = map[string]string{
	"BETTER_AUTH_URL": "", "FEDERATION_PUBLIC_KEY": "", "FEDERATION_PRIVATE_KEY": "",
	"FEDERATION_ENCRYPTION_PUBLIC_KEY": "", "FEDERATION_ENCRYPTION_PRIVATE_KEY": "",
}

func friends(w *world) { w.acquainted(w.b) }

func behaves(b sipherpeer.Behavior) func(*world) {
	return func(w *world) {
		w.acquainted(w.b)
		w.b.Behave(b)
	}
}

func payload(s string) client.Submission { return job("deliver-post", sipherpeer.PostsPath, s) }

// Requests of ours.
const (
	askB    = "GET " + urlB + "/discover"
	tellB   = "POST " + urlB + "/discover"
	followB = "POST " + urlB + sipherpeer.FollowsPath
	postB   = "POST " + urlB + sipherpeer.PostsPath
)

func times(n int, s string) []string { return slices.Repeat([]string{s}, n) }

var outcomes = []row{
	{name: "1 payload not JSON", prepare: friends, job: payload("{"), state: "failed", removed: true},
	{name: "1 payload a list", prepare: friends, job: payload("[]"), state: "failed", removed: true},
	{name: "1 no method", prepare: friends, job: payload("{}"), state: "failed", removed: true},
	{name: "1 method no string", prepare: friends, job: payload(`{"method":7}`), state: "failed", removed: true},
	{name: "1 method not allowed", prepare: friends, job: payload(`{"method":"federate"}`), state: "failed", removed: true},
	{
		name: "2 blocked", job: followJob(), state: "failed", removed: true,
		prepare: func(w *world) {
			friends(w)
			path := "/v1/servers/" + url.PathEscape(urlB) + "/block"
			if err := w.Do(w.t.Context(), http.MethodPost, path, []byte(`{"reason":"spam"}`), nil); err != nil {
				w.t.Fatal(err)
			}
		},
	},
	{
		name: "3 discovery refused", prepare: func(w *world) { w.b.Discover(sipherpeer.Discovery{Status: 404}) }, job: postJob(),
		state: "dead", asked: times(5, askB), says: "discover https://b.example",
	},
	{
		name: "3 no keys", prepare: func(w *world) { w.b.Discover(sipherpeer.Discovery{Body: `{"url":"https://b.example"}`}) }, job: postJob(),
		state: "dead", asked: times(5, askB), says: "publicKey",
	},
	{
		name: "3 cut off", prepare: func(w *world) { w.net.Fail(urlB, errors.New("no route")) }, job: followJob(),
		state: "dead", asked: times(5, askB), says: "no route",
	},
	{
		name: "3 hangs", prepare: func(w *world) { w.net.Hang(urlB) }, job: postJob(),
		state: "dead", asked: times(5, askB), says: "no answer in time",
	},
	{
		name: "4 key too short", job: postJob(), state: "dead", says: "wrong length",
		prepare: func(w *world) {
			if err := w.store.Sipher().SetKeys(w.t.Context(), urlB, w.b.PublicKey(), crypto.Encode(make([]byte, 31)), time.Now()); err != nil {
				w.t.Fatal(err)
			}
		},
	},
	{
		name: "5 own origin not configured", settings: map[string]string{"BETTER_AUTH_URL": ""}, prepare: friends, job: postJob(),
		state: "failed", says: "BETTER_AUTH_URL",
	},
	{name: "5 nothing configured", settings: noIdentity, job: postJob(), state: "failed", says: "BETTER_AUTH_URL"},
	{
		name: "6 connection lost", prepare: behaves(sipherpeer.Behavior{Reset: true}), job: postJob(),
		state: "dead", attempts: 5, asked: times(5, postB), says: "reset",
	},
	{
		name: "6 no answer", prepare: behaves(sipherpeer.Behavior{Hang: true}), job: followJob(),
		state: "dead", attempts: 5, asked: times(5, followB), says: "no answer in time",
	},
	{
		name: "6 answers 404", prepare: behaves(sipherpeer.Behavior{Status: 404, Code: "NOT_FOUND"}), job: postJob(),
		state: "dead", attempts: 5, asked: times(5, postB), says: "answered 404", status: 404,
	},
	{
		name: "6 answers 503", prepare: behaves(sipherpeer.Behavior{Status: 503}), job: postJob(),
		state: "dead", attempts: 5, asked: times(5, postB), says: "answered 503", status: 503,
	},
	{
		name: "6 acknowledgement lost", job: followJob(), state: "delivered", attempts: 2, asked: times(2, followB), status: 409, note: "acknowledgement lost",
		prepare: func(w *world) {
			friends(w)
			w.b.Behave(sipherpeer.Behavior{Lose: true}, sipherpeer.Behavior{})
		},
	},
	{
		name: "7 no content", prepare: behaves(sipherpeer.Behavior{Form: sipherpeer.NoContent}), job: postJob(),
		state: "failed", attempts: 1, asked: times(1, postB), says: "no JSON body", status: 204,
	},
	{
		name: "7 text", prepare: behaves(sipherpeer.Behavior{Form: sipherpeer.Text}), job: followJob(),
		state: "failed", attempts: 1, asked: times(1, followB), says: "no JSON body", status: 200,
	},
	{
		name: "7 legacy answer", prepare: behaves(sipherpeer.Behavior{Form: sipherpeer.Legacy}), job: followJob(),
		state: "failed", attempts: 1, asked: times(1, followB), says: "missing acknowledgement", status: 200,
	},
	{
		name: "7 null", prepare: behaves(sipherpeer.Behavior{Form: sipherpeer.Null}), job: postJob(),
		state: "failed", attempts: 1, asked: times(1, postB), says: "missing acknowledgement", status: 200,
	},
	{
		name: "8 sealed to another", prepare: behaves(sipherpeer.Behavior{WrongRecipient: true}), job: followJob(),
		state: "failed", attempts: 1, asked: times(1, followB), removed: true,
	},
	{
		name: "8 garbage", prepare: behaves(sipherpeer.Behavior{Garbage: true}), job: followJob(),
		state: "failed", attempts: 1, asked: times(1, followB), removed: true,
	},
	{
		name: "8 no signing key", job: followJob(), state: "failed", attempts: 1, asked: times(1, followB), says: "no signing key", status: 200,
		prepare: func(w *world) {
			friends(w)
			if err := w.store.Sipher().SetKeys(w.t.Context(), urlB, "", w.b.EncryptionKey(), time.Now()); err != nil {
				w.t.Fatal(err)
			}
		},
	},
	{
		name: "8 wrong signature", prepare: behaves(sipherpeer.Behavior{BadSignature: true}), job: followJob(),
		state: "failed", attempts: 1, asked: times(1, followB), removed: true,
	},
	{
		name: "8 no signature", prepare: behaves(sipherpeer.Behavior{NoSignature: true}), job: followJob(),
		state: "failed", attempts: 1, asked: times(1, followB), removed: true,
	},
	{name: "8 good", prepare: friends, job: followJob(), state: "delivered", attempts: 1, asked: times(1, followB), removed: true},
	{
		name: "8 good inline", prepare: behaves(sipherpeer.Behavior{Form: sipherpeer.Inline}), job: followJob(),
		state: "delivered", attempts: 1, asked: times(1, followB), removed: true,
	},
	{
		name: "8 no handler", prepare: behaves(sipherpeer.Behavior{BadSignature: true, Garbage: true}), job: postJob(),
		state: "delivered", attempts: 1, asked: times(1, postB), removed: true,
	},
	{
		name: "unknown server", job: followJob(), state: "delivered", attempts: 1, asked: []string{askB, tellB, followB}, removed: true,
	},
}

// TestEveryRowOfTheOutcomeTableThroughTheWholeEngine walks the table: state,
// attempts, requests, and what is left of the record.
func TestEveryRowOfTheOutcomeTableThroughTheWholeEngine(t *testing.T) {
	for _, c := range outcomes {
		t.Run(c.name, func(t *testing.T) {
			runWith(t, options{settings: c.settings}, func(t *testing.T, w *world) {
				if c.prepare != nil {
					c.prepare(w)
				}
				r := w.ends(w.send(c.job))
				if r.State != c.state || r.Attempts != c.attempts || !r.NextAttemptAt.IsZero() {
					t.Errorf("%+v, want %s after %d attempts", r, c.state, c.attempts)
				}
				if got := w.net.Asked(); !slices.Equal(got, c.asked) {
					t.Errorf("asked %v, want %v", got, c.asked)
				}
				c.record(t, r)
				want := 0
				if c.state == "dead" {
					want = 1
				}
				if dead := w.dead(); dead != want {
					t.Errorf("%d dead letters, want %d", dead, want)
				}
			})
		})
	}
}

func (c row) record(t *testing.T, r recipient) {
	t.Helper()
	if !c.removed {
		if !strings.Contains(r.LastError, c.says) || r.LastStatus != c.status || !strings.Contains(r.Note, c.note) {
			t.Errorf("record %+v, want status %d, error %q, note %q", r, c.status, c.says, c.note)
		}
		return
	}
	if r.LastError != "" || r.LastStatus != 0 || r.Response != "" {
		t.Errorf("the record is not removed: %s", brief(r))
	}
	if noted := r.Note != ""; noted != (c.state == "failed") {
		t.Errorf("the note of a recipient who is %s is %q", c.state, r.Note)
	}
}
