package sipher_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/retry"
	"fedpost/internal/protocol/sipher"
	"fedpost/internal/protocol/sipher/peers"
	"fedpost/internal/testkit/sipherpeer"
)

// conflict is what a receiver answers that has the thing already, and what a
// lying proxy can say as well.
const conflict = `{"code":"FOLLOW_ALREADY_EXISTS"}`

// Only the target's signature proves that the target has the delivery, not the
// status and the text that a proxy answers.
func TestNothingThatAProxyMakesUpEndsADelivery(t *testing.T) {
	for name, answer := range map[string]sipherpeer.Behavior{
		"409, follow exists":       {ProxyStatus: 409, ProxyBody: conflict},
		"409, post exists":         {ProxyStatus: 409, ProxyBody: `{"code":"FEDERATED_POST_ALREADY_EXISTS"}`},
		"an unsigned ack":          {ProxyBody: `{"method":"PROXY_RESPONSE","payload":{"method":"PROXY_RESPONSE","status":"acknowledged","data":{}}}`},
		"an empty ack":             {ProxyBody: `{"method":"PROXY_RESPONSE","payload":{"method":"PROXY_RESPONSE"}}`},
		"an ack of its own inline": {ProxyBody: `{"method":"PROXY_RESPONSE","status":"acknowledged","data":{},"signature":"x"}`},
	} {
		for job, a := range map[string]activity.Activity{"follow": followJob(), "post": postJob()} {
			t.Run(name+" of a "+job, func(t *testing.T) {
				b := newBed(t)
				b.blockedFromUs(notFound)
				b.acquainted(b.p)
				b.p.Behave(answer)
				for n := 1; n <= retry.Sipher().Tries; n++ {
					want{class: outcome.Retry, says: "no such host"}.check(t, b.attempt(a, n))
				}
				untouched(t, b)
			})
		}
	}
}

// An acknowledgement that the target signed for another follow, replayed by the
// proxy, proves nothing of this one.
func TestAnAcknowledgementOfAnotherFollowThroughAProxyEndsNothing(t *testing.T) {
	b := newBed(t)
	b.blockedFromUs(notFound)
	b.acquainted(b.p)
	b.b.Behave(sipherpeer.Behavior{FollowerID: "carol"})
	want{class: outcome.Retry, says: "no such host"}.check(t, b.attempt(followJob(), 1))
	untouched(t, b)
}

// Sipher servers call a connection that is closed without an answer UNKNOWN,
// which asks a proxy; only a reset is CONN_RESET, which asks none.
func TestACleanCloseWithoutAnAnswerIsUnknownAndAsksAProxy(t *testing.T) {
	for name, c := range map[string]struct {
		err     error
		reason  peers.Reason
		proxied bool
	}{
		"closed before the answer":  {io.EOF, peers.Unknown, true},
		"closed within the answer":  {fmt.Errorf("read: %w", io.ErrUnexpectedEOF), peers.Unknown, true},
		"reset":                     {dialError(errReset), peers.ConnReset, false},
		"given up by the system":    {dialError(errSystemTimeout), peers.ConnReset, false},
		"written to a reset socket": {dialError(errPipe), peers.ConnReset, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.blockedFromUs(c.err)
			b.acquainted(b.p)
			o := b.attempt(postJob(), 1)
			if (o.Class == outcome.Delivered) != c.proxied || (len(b.p.Received()) == 1) != c.proxied {
				t.Errorf("%+v, P saw %v", o, b.p.Sequence())
			}
			if s := b.server(urlB); s.IsHealthy || s.Reason != c.reason {
				t.Errorf("%+v, want %s", s, c.reason)
			}
		})
	}
}

// The protocol does not inspect acknowledgements of posts: payload.method alone
// makes one.
func TestAcknowledgementsOfPostsAreJudgedByPayloadMethodAlone(t *testing.T) {
	const missing = "missing acknowledgement"
	for body, post := range map[string]want{
		`{"method":"PROXY_RESPONSE","payload":{"method":"PROXY_RESPONSE"}}`:                           delivered,
		`{"payload":{"method":"PROXY_RESPONSE","status":7,"data":null,"signature":[]}}`:               delivered,
		`{"method":"PROXY_RESPONSE","status":"acknowledged","data":{}}`:                               delivered,
		`{"method":"PROXY_RESPONSE"}`:                                                                 {class: outcome.Refused, says: missing},
		`{"method":"PROXY_RESPONSE","payload":{"method":"ERROR"}}`:                                    {class: outcome.Refused, says: missing},
		`{"method":"PROXY_RESPONSE","payload":{"Method":"PROXY_RESPONSE"}}`:                           {class: outcome.Refused, says: missing},
		`{"method":"PROXY_RESPONSE","payload":{"status":"acknowledged"}}`:                             {class: outcome.Refused, says: missing},
		`{"method":"PROXY_RESPONSE","payload":["PROXY_RESPONSE"]}`:                                    {class: outcome.Refused, says: missing},
		`{"status":"acknowledged","payload":{"method":["PROXY_RESPONSE"],"status":"acknowledged"}}`:   {class: outcome.Refused, says: missing},
		`{"payload":{"payload":{"method":"PROXY_RESPONSE","status":"acknowledged","data":{"x":""}}}}`: {class: outcome.Refused, says: missing},
	} {
		b := newBed(t)
		b.acquainted(b.b)
		b.b.Behave(sipherpeer.Behavior{Body: body})
		t.Log(body)
		post.check(t, b.attempt(postJob(), 1))
	}
	// A follow's acknowledgement has to be whole.
	b := newBed(t)
	b.acquainted(b.b)
	b.b.Behave(sipherpeer.Behavior{Body: `{"payload":{"method":"PROXY_RESPONSE"}}`})
	want{class: outcome.Refused, says: missing}.check(t, b.attempt(followJob(), 1))
	untouched(t, b)
}

// Whoever registers itself at /discover is seen last, and so could make itself
// the proxy of every delivery.
func TestAServerWeKnowIsPreferredToAStrangerAsProxy(t *testing.T) {
	stranger := func(b *bed) {
		b.net.Serve("https://stranger.example", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }))
		b.insert(b.p, func(s *peers.Server) { s.URL, s.Stranger, s.LastSeen = "https://stranger.example", true, b.Now() })
	}
	t.Run("a server we know", func(t *testing.T) {
		b := newBed(t)
		b.blockedFromUs(notFound)
		b.p.Know(ourURL, b.a.PublicKey(), b.a.EncryptionKey())
		b.insert(b.p, func(s *peers.Server) { s.LastSeen = b.Now().Add(-24 * time.Hour) })
		stranger(b)
		want{class: outcome.Delivered, discard: true, note: "passed on by " + urlP}.check(t, b.attempt(postJob(), 1))
	})
	t.Run("none but strangers", func(t *testing.T) {
		b := newBed(t)
		b.blockedFromUs(notFound)
		stranger(b)
		b.attempt(postJob(), 1)
		if asked := b.net.Asked(); !slices.Contains(asked, "POST https://stranger.example/proxy") {
			t.Errorf("asked %v", asked)
		}
	})
}

// A proxy's 502 proves nothing: it ends no checks that our own error allowed.
func TestAProxys502DoesNotEndTheHealthChecksOfTheTarget(t *testing.T) {
	b := newBed(t)
	b.blockedFromUs(fmt.Errorf("strange")) // UNKNOWN: by proxy, and checked directly
	b.acquainted(b.p)
	b.p.Behave(sipherpeer.Behavior{ProxyStatus: 502})
	want{class: outcome.Retry, says: "strange"}.check(t, b.attempt(postJob(), 1))
	if s := b.server(urlB); s.IsHealthy || s.Reason != peers.Unknown {
		t.Errorf("the server is %+v, want unhealthy for an unknown reason", s)
	}
	b.net.Join(b.b)
	b.advance(5 * time.Minute)
	if got := b.check(); got != (run{asked: 1, healthy: 1}) {
		t.Errorf("the check reports %+v, want 1 checked and healthy", got)
	}
}

func TestTheNumberOfChecksIsASetting(t *testing.T) {
	for configured, wanted := range map[int]int{0: 5, 1: 1, 7: 7} {
		b := newBed(t, func(c *sipher.Config) { c.Checks = configured })
		b.down()
		for n := range 10 {
			b.advance(peers.CheckDelay(n))
			got, checked, exhausted := b.check(), 0, 0
			if n < wanted {
				checked = 1
			}
			if n == wanted-1 {
				exhausted = 1
			}
			if got.asked != checked || got.exhausted != exhausted {
				t.Errorf("%d configured, check %d: %d checked and %d exhausted, want %d and %d", configured, n, got.asked, got.exhausted, checked, exhausted)
			}
		}
		if lines := b.logged("sipher health checks exhausted"); len(lines) != 1 || lines[0]["failed"] != float64(wanted) {
			t.Errorf("%d configured: logged %v, want one line with %d failed", configured, lines, wanted)
		}
	}
}

// A registration changes neither keys nor health, but a server that registers again
// is likely to be back, so its check is due at once.
func TestAServerThatRegistersAgainIsCheckedAtOnce(t *testing.T) {
	for name, prepare := range map[string]func(b *bed){
		"a check is waiting": func(*bed) {},
		"checks are exhausted": func(b *bed) {
			for n := range peers.MaxChecks {
				b.advance(peers.CheckDelay(n))
				b.check()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.down()
			prepare(b)
			b.net.Join(b.b)
			if status, body, err := b.b.RegisterWith(ourURL); err != nil || status != 200 {
				t.Fatalf("the registration is answered %d %s, error %v; want 200", status, body, err)
			}
			if s := b.server(urlB); s.IsHealthy || s.Reason != peers.ConnRefused {
				t.Errorf("the registration itself changed the health: %+v", s)
			}
			if got := b.check(); got != (run{asked: 1, healthy: 1}) || !b.server(urlB).IsHealthy {
				t.Errorf("the check reports %+v, and the server is %+v; want 1 checked and healthy", got, b.server(urlB))
			}
		})
	}
	t.Run("once for each registration", func(t *testing.T) {
		b := newBed(t)
		b.down()
		b.net.Join(b.b)
		if status, body, err := b.b.RegisterWith(ourURL); err != nil || status != 200 {
			t.Fatalf("the registration is answered %d %s, error %v; want 200", status, body, err)
		}
		b.b.Discover(sipherpeer.Discovery{Status: 503})
		asked := len(b.net.Asked())
		for range 3 {
			b.check()
		}
		if n := len(b.net.Asked()) - asked; n != 1 || b.server(urlB).Attempts != 1 {
			t.Errorf("%d checks, %+v", n, b.server(urlB))
		}
	})
	t.Run("not where checks are forbidden, nor where it is healthy", func(t *testing.T) {
		for _, change := range []func(*peers.Server){
			func(s *peers.Server) { s.IsHealthy, s.Reason = false, peers.DNSBlocked }, func(*peers.Server) {},
		} {
			b := newBed(t)
			b.insert(b.b, change)
			if status, body, err := b.b.RegisterWith(ourURL); err != nil || status != 200 {
				t.Fatalf("the registration is answered %d %s, error %v; want 200", status, body, err)
			}
			if due, err := b.store.DueChecks(t.Context(), b.Now().Add(24*time.Hour), 10); err != nil || len(due) != 0 {
				t.Errorf("due are %+v, error %v; want no check", due, err)
			}
		}
	})
}
