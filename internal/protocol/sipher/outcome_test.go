package sipher_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/sipher"
	"fedpost/internal/protocol/sipher/crypto"
	"fedpost/internal/protocol/sipher/peers"
	"fedpost/internal/testkit/sipherpeer"
)

var (
	delivered = want{class: outcome.Delivered, discard: true}
	accepted  = want{class: outcome.Delivered, discard: true, note: "follow accepted"}
)

func TestOutcome1InvalidPayloadIsFinalWithoutAnyNetworkCall(t *testing.T) {
	for name, payload := range map[string]string{
		"not JSON": "{", "not an object": "[]", "null": "null", "no method": "{}", "method no string": `{"method":1}`, "method not allowed": `{"method":"DELETE"}`,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			// Blocked as well: the payload is looked at first.
			block(b, urlB)
			o := b.attempt(job("deliver-post", payload), 1)
			want{class: outcome.Refused, unattempted: true, discard: true, says: "invalid sipher payload"}.check(t, o)
			if got := b.net.Asked(); len(got) > 0 {
				t.Errorf("asked %v", got)
			}
		})
	}
}

func block(b *bed, url string) {
	b.t.Helper()
	if err := b.store.Block(b.t.Context(), peers.Block{ServerURL: url, Reason: "spam", CreatedAt: b.Now()}); err != nil {
		b.t.Fatal(err)
	}
}

func TestOutcome2BlockedServerIsFinalWithoutAnyNetworkCall(t *testing.T) {
	b := newBed(t)
	block(b, urlB)
	o := b.attempt(followJob(), 1)
	want{class: outcome.Refused, unattempted: true, discard: true, says: "block list: spam"}.check(t, o)
	if got := b.net.Asked(); len(got) > 0 {
		t.Errorf("asked %v", got)
	}
}

func TestOutcome3UndiscoverableServerIsRetriedWithAttemptsUnchanged(t *testing.T) {
	for name, d := range map[string]sipherpeer.Discovery{
		"refuses":         {Status: 404},
		"fails":           {Status: 500},
		"no JSON":         {Body: "hello"},
		"no keys":         {Body: `{"url":"https://b.example"}`},
		"key too short":   {Body: `{"publicKey":"QQ==","encryptionPublicKey":"QQ=="}`},
		"only one key":    {Body: `{"publicKey":"` + strings.Repeat("A", 43) + `="}`},
		"keys under Name": {Body: `{"PublicKey":"` + strings.Repeat("A", 43) + `="}`},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.b.Discover(d)
			want{class: outcome.Retry, unattempted: true, tried: true, says: "discover https://b.example"}.check(t, b.attempt(followJob(), 1))
			if got := b.b.Sequence(); !slices.Equal(got, []string{"GET /discover"}) {
				t.Errorf("asked %v", got)
			}
			if _, err := b.store.Server(t.Context(), urlB); !errors.Is(err, peers.ErrUnknown) {
				t.Errorf("registered all the same: %v", err)
			}
		})
	}
	t.Run("cut off", func(t *testing.T) {
		b := newBed(t)
		b.net.Fail(urlB, errors.New("gone"))
		want{class: outcome.Retry, unattempted: true, tried: true, says: "gone"}.check(t, b.attempt(followJob(), 1))
	})
	t.Run("no URL", func(t *testing.T) {
		b := newBed(t)
		a := followJob()
		a.ServerURL = "b.example"
		want{class: outcome.Retry, unattempted: true, tried: true, says: "not a server URL"}.check(t, b.attempt(a, 1))
	})
}

func TestOutcome4EncryptionKeyOfWrongLengthIsRetried(t *testing.T) {
	for name, k := range map[string]string{"short": "QQ==", "none": "", "no base64": "?", "long": crypto.Encode(make([]byte, 33)), "low order": crypto.Encode(make([]byte, 32))} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.insert(b.b, func(s *peers.Server) { s.EncryptionKey = k })
			want{class: outcome.Retry, unattempted: true, tried: true, says: urlB}.check(t, b.attempt(followJob(), 1))
			if got := b.net.Asked(); len(got) > 0 {
				t.Errorf("asked %v", got)
			}
		})
	}
}

func TestOutcome4ComesBefore5(t *testing.T) {
	b := newBed(t, without(crypto.SettingOrigin))
	b.insert(b.b, func(s *peers.Server) { s.EncryptionKey = "QQ==" })
	want{class: outcome.Retry, unattempted: true, tried: true, says: "wrong length"}.check(t, b.attempt(followJob(), 1))
}

// without makes a bed whose settings are incomplete.
func without(setting string) option {
	return func(c *sipher.Config) {
		switch setting {
		case crypto.SettingOrigin:
			c.Identity.Origin = ""
			return
		case crypto.SettingPrivateKey:
			publicOnly(c)
			return
		}
		c.Identity = crypto.Identity{Public: crypto.Public{Origin: c.Identity.Origin}}
	}
}

// publicOnly makes a bed that may show who we are and not sign.
func publicOnly(c *sipher.Config) { c.Identity = crypto.Identity{Public: c.Identity.Public} }

func TestOutcome5OwnOriginNotConfiguredIsFinalWithoutAnyRequest(t *testing.T) {
	for name, known := range map[string]bool{"registered": true, "unknown": false} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, without(crypto.SettingOrigin))
			if known {
				b.acquainted(b.b)
			}
			want{class: outcome.Refused, unattempted: true, says: "set BETTER_AUTH_URL"}.check(t, b.attempt(followJob(), 1))
			if got := b.net.Asked(); len(got) > 0 {
				t.Errorf("asked %v", got)
			}
		})
	}
}

func TestMissingKeysFailClearly(t *testing.T) {
	b := newBed(t, without(crypto.SettingPrivateKey))
	b.acquainted(b.b)
	want{class: outcome.Refused, unattempted: true, says: "FEDERATION_PRIVATE_KEY"}.check(t, b.attempt(followJob(), 1))
	if got := b.net.Asked(); len(got) > 0 {
		t.Errorf("asked %v", got)
	}
}

func TestOutcome6AnyAnswerOtherThan2xxIsRetried(t *testing.T) {
	for _, status := range []int{300, 301, 304, 400, 401, 403, 404, 409, 410, 422, 429, 500, 501, 502, 503, 599} {
		b := newBed(t)
		b.acquainted(b.b)
		b.b.Behave(sipherpeer.Behavior{Status: status, Code: "SOME_CODE"})
		o := b.attempt(postJob(), 2)
		want{class: outcome.Retry, says: "answered"}.check(t, o)
		if o.Status != status || !o.RetryAfter.IsZero() || status != 304 && !strings.Contains(o.Response, "SOME_CODE") {
			t.Errorf("%d: %+v", status, o)
		}
		if s := b.server(urlB); !s.IsHealthy {
			t.Errorf("%d marked the server unhealthy", status)
		}
	}
}

func TestOutcome7SuccessWithoutJSONIsFinalAndKept(t *testing.T) {
	for _, f := range []sipherpeer.Form{sipherpeer.NoContent, sipherpeer.Empty, sipherpeer.Text} {
		b := newBed(t)
		b.acquainted(b.b)
		b.b.Behave(sipherpeer.Behavior{Form: f})
		want{class: outcome.Refused, says: "no JSON body"}.check(t, b.attempt(postJob(), 1))
	}
}

func TestOutcome7SuccessWithoutAcknowledgementIsFinalAndKept(t *testing.T) {
	for _, behavior := range []sipherpeer.Behavior{
		{Form: sipherpeer.Legacy}, {Form: sipherpeer.Null}, {Body: "{}"}, {Body: "[]"}, {Status: 201, Body: `{"ok":true}`},
	} {
		for _, a := range []activity.Activity{followJob(), postJob()} {
			b := newBed(t)
			b.acquainted(b.b)
			b.b.Behave(behavior)
			want{class: outcome.Refused, says: "missing acknowledgement"}.check(t, b.attempt(a, 1))
		}
	}
}

func TestOutcome8FollowAckThatDoesNotOpenOrParseIsFinalAndRemoved(t *testing.T) {
	for name, behavior := range map[string]sipherpeer.Behavior{
		"wrong recipient": {WrongRecipient: true},
		"garbage":         {Garbage: true},
		"bad date":        {CreatedAt: `"not a date"`},
		"bad accepted":    {Accepted: `"yes"`},
		"no envelope":     {Body: `{"method":"PROXY_RESPONSE","status":"acknowledged","data":{},"signature":"x"}`},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.acquainted(b.b)
			b.b.Behave(behavior)
			want{class: outcome.Refused, discard: true, says: "invalid acknowledgement"}.check(t, b.attempt(followJob(), 1))
			untouched(t, b)
		})
	}
}

// untouched checks that no acknowledgement had an effect.
func untouched(t *testing.T, b *bed) {
	t.Helper()
	for _, f := range b.follows() {
		if f.Accepted || f.Acknowledged {
			t.Errorf("follow changed: %+v", f)
		}
	}
}

func TestOutcome8NoSigningKeyIsFinalAndKept(t *testing.T) {
	for _, k := range []string{"", "QQ==", "?"} {
		b := newBed(t)
		b.b.Know(ourURL, b.a.PublicKey(), b.a.EncryptionKey())
		b.insert(b.b, func(s *peers.Server) { s.PublicKey = k })
		want{class: outcome.Refused, says: "no signing key"}.check(t, b.attempt(followJob(), 1))
		untouched(t, b)
	}
}

func TestOutcome8WrongOrMissingSignatureIsFinalAndRemoved(t *testing.T) {
	for _, behavior := range []sipherpeer.Behavior{{BadSignature: true}, {NoSignature: true}, {BadSignature: true, Form: sipherpeer.Inline}} {
		b := newBed(t)
		b.acquainted(b.b)
		b.b.Behave(behavior)
		want{class: outcome.Refused, discard: true, says: "signature"}.check(t, b.attempt(followJob(), 1))
		untouched(t, b)
	}
}

func TestOutcome8AContentFaultComesBeforeTheMissingKeyAndThatBeforeTheSignature(t *testing.T) {
	b := newBed(t)
	b.b.Know(ourURL, b.a.PublicKey(), b.a.EncryptionKey())
	b.insert(b.b, func(s *peers.Server) { s.PublicKey = "" })
	b.b.Behave(sipherpeer.Behavior{Garbage: true, NoSignature: true})
	want{class: outcome.Refused, discard: true, says: "invalid acknowledgement"}.check(t, b.attempt(followJob(), 1))

	b = newBed(t)
	b.b.Know(ourURL, b.a.PublicKey(), b.a.EncryptionKey())
	b.insert(b.b, func(s *peers.Server) { s.PublicKey = "" })
	b.b.Behave(sipherpeer.Behavior{NoSignature: true})
	want{class: outcome.Refused, says: "no signing key"}.check(t, b.attempt(followJob(), 1))
}

func TestOutcome8GoodAcknowledgementsAreDeliveredAndRemoved(t *testing.T) {
	for _, form := range []sipherpeer.Form{sipherpeer.Wrapped, sipherpeer.Inline} {
		b := newBed(t)
		b.acquainted(b.b)
		b.b.Behave(sipherpeer.Behavior{Form: form})
		accepted.check(t, b.attempt(followJob(), 1))
		delivered.check(t, b.attempt(postJob(), 1))
	}
}

func TestOutcome8AckOfAJobWithoutHandlerIsNotInspected(t *testing.T) {
	for _, behavior := range []sipherpeer.Behavior{
		{WrongRecipient: true},
		{Garbage: true},
		{BadSignature: true},
		{NoSignature: true},
		{Body: `{"method":"PROXY_RESPONSE","status":"acknowledged","data":{}}`},
	} {
		for _, a := range []activity.Activity{postJob(), job("deliver-something", followPayload)} {
			b := newBed(t)
			b.acquainted(b.b)
			b.b.Behave(behavior)
			delivered.check(t, b.attempt(a, 1))
			untouched(t, b)
		}
	}
}

func TestOutcome6LostAcknowledgementIsDeliveredFromTheSecondAttemptOn(t *testing.T) {
	for _, a := range []activity.Activity{followJob(), postJob()} {
		b := newBed(t)
		b.acquainted(b.b)
		b.b.Behave(sipherpeer.Behavior{Lose: true}, sipherpeer.Behavior{})
		first := b.attempt(a, 1)
		want{class: outcome.Retry}.check(t, first)
		if first.Reason != outcome.ConnReset {
			t.Errorf("reason %q (%s)", first.Reason, first.Err)
		}
		second := b.attempt(a, 2)
		want{class: outcome.Delivered, note: "acknowledgement lost"}.check(t, second)
		if second.Status != 409 || len(b.b.Deliveries()) != 2 {
			t.Errorf("%+v after %d deliveries", second, len(b.b.Deliveries()))
		}
		untouched(t, b)
	}
}

func TestOutcome6ConflictAtTheFirstAttemptIsRetried(t *testing.T) {
	b := newBed(t)
	b.acquainted(b.b)
	b.b.Behave(sipherpeer.Behavior{Status: 409, Code: "FOLLOW_ALREADY_EXISTS"})
	want{class: outcome.Retry, says: "409"}.check(t, b.attempt(followJob(), 1))
	want{class: outcome.Delivered, note: "acknowledgement lost"}.check(t, b.attempt(followJob(), 2))
	b.b.Behave(sipherpeer.Behavior{Status: 409, Code: "SOMETHING_ELSE"})
	want{class: outcome.Retry, says: "409"}.check(t, b.attempt(followJob(), 3))
}

func TestStoreOutagesHarmNoJob(t *testing.T) {
	down := errors.New("table is down")
	t.Run("before the request", func(t *testing.T) {
		for _, verb := range []string{"Blocked", "Server"} {
			b := newBed(t)
			b.acquainted(b.b)
			broken := sipherWith(b, &outage{Store: b.store, verb: verb, err: down})
			o := broken.Attempt(t.Context(), postJob(), target(postJob()), 1)
			want{class: outcome.Retry, unattempted: true, says: "table is down"}.check(t, o)
			if got := b.net.Asked(); len(got) > 0 {
				t.Errorf("%s: asked %v", verb, got)
			}
		}
	})
	t.Run("during discovery", func(t *testing.T) {
		for _, verb := range []string{"Insert", "Server"} {
			b := newBed(t)
			broken := sipherWith(b, &outage{Store: b.store, verb: verb, err: down})
			o := broken.Attempt(t.Context(), postJob(), target(postJob()), 1)
			want{class: outcome.Retry, unattempted: true, says: "table is down"}.check(t, o)
		}
	})
	t.Run("after the answer", func(t *testing.T) {
		b := newBed(t)
		b.acquainted(b.b)
		broken := sipherWith(b, &outage{Store: b.store, verb: "AcceptFollow", err: down})
		o := broken.Attempt(t.Context(), followJob(), target(followJob()), 1)
		want{class: outcome.Delivered, discard: true, note: "could not be stored"}.check(t, o)
	})
	t.Run("while marking", func(t *testing.T) {
		b := newBed(t)
		b.acquainted(b.b)
		b.net.Fail(urlB, errors.New("gone"))
		broken := sipherWith(b, &outage{Store: b.store, verb: "MarkUnhealthy", err: down})
		o := broken.Attempt(t.Context(), postJob(), target(postJob()), 1)
		want{class: outcome.Retry, says: "gone"}.check(t, o)
		if len(b.logged("cannot record that a sipher server is unhealthy")) == 0 {
			t.Error("the outage is not logged")
		}
	})
}

func TestStoppingSaysNothingOfTheHostAndCostsNoTry(t *testing.T) {
	b := newBed(t)
	b.acquainted(b.b)
	b.net.Hang(urlB)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	o := b.attemptWith(ctx, postJob(), 1)
	want{class: outcome.Retry, unattempted: true, says: "stopped"}.check(t, o)
	if o.Reason != outcome.ReasonNone || o.HostFault() || !b.server(urlB).IsHealthy {
		t.Errorf("held against the host: %+v", o)
	}
}
