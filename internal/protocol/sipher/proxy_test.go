package sipher_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/sipher"
	"fedpost/internal/protocol/sipher/peers"
	"fedpost/internal/testkit/sipherpeer"
)

// blockedFromUs makes B unreachable for us with an error, and for nobody else.
func (b *bed) blockedFromUs(err error) {
	b.t.Helper()
	b.acquainted(b.b)
	b.p.Through(sipherpeer.NewNetwork(b.b, b.p))
	b.net.Fail(urlB, err)
}

func TestDeliveryGoesThroughAProxyWhereDNSIsBlocked(t *testing.T) {
	b := newBed(t)
	b.blockedFromUs(notFound)
	b.acquainted(b.p)
	o := b.attempt(followJob(), 1)
	want{class: outcome.Delivered, discard: true, note: "passed on by https://p.example; follow accepted"}.check(t, o)

	if got := b.p.Received(); len(got) != 1 || got[0].Path != "/proxy" || len(got[0].Faults) > 0 ||
		!strings.HasPrefix(got[0].Body, `{"method":"PROXY","targetUrl":"https://b.example/proxy","publicSigningKey":"`) ||
		strings.Contains(got[0].Body, "follows") {
		t.Errorf("P saw %+v", got)
	}
	got := b.b.Deliveries()
	if len(got) != 1 || !got[0].Proxied || got[0].Plaintext != followPayload || !got[0].Signed || len(got[0].Faults) > 0 {
		t.Errorf("B saw %+v", got)
	}
	if f := b.follows(); len(f) != 1 || !f[0].Accepted {
		t.Errorf("the follows are %+v, want one that is accepted", f)
	}
	if s := b.server(urlB); s.IsHealthy || s.Reason != peers.DNSBlocked {
		t.Errorf("the server is %+v, want unhealthy as its name is not found", s)
	}
}

func TestProxyIsTriedOnlyWhereThePolicySaysSo(t *testing.T) {
	for name, c := range map[string]struct {
		err      error
		override string
		proxied  bool
	}{
		"unknown":              {fmt.Errorf("strange"), "", true},
		"refused":              {dialError(syscall.ECONNREFUSED), "", false},
		"reset":                {syscall.ECONNRESET, "", false},
		"refused, overridden":  {dialError(syscall.ECONNREFUSED), `{"CONN_REFUSED":{"proxyEligible":true}}`, true},
		"DNS, overridden":      {notFound, `{"DNS_BLOCKED":{"proxyEligible":false}}`, false},
		"DNS, other overrides": {notFound, `{"DNS_BLOCKED":{"directHealthCheckable":true}}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, policies(t, c.override))
			b.blockedFromUs(c.err)
			b.acquainted(b.p)
			o := b.attempt(postJob(), 1)
			if (o.Class == outcome.Delivered) != c.proxied || (len(b.p.Received()) == 1) != c.proxied {
				t.Errorf("%+v, P saw %v", o, b.p.Sequence())
			}
		})
	}
}

func TestProxyIsTheNewestHealthyServerThatIsNeitherTargetNorUsNorBlocked(t *testing.T) {
	b := newBed(t)
	b.blockedFromUs(notFound)
	others := map[string]func(*peers.Server){
		"https://older.example":   func(s *peers.Server) { s.LastSeen = b.Now().Add(-2 * time.Hour) },
		"https://sick.example":    func(s *peers.Server) { s.LastSeen = b.Now(); s.IsHealthy = false; s.Reason = peers.TimedOut },
		"https://blocked.example": func(s *peers.Server) { s.LastSeen = b.Now() },
		ourURL:                    func(s *peers.Server) { s.LastSeen = b.Now() },
	}
	for url, change := range others {
		b.insert(b.p, func(s *peers.Server) { s.URL = url; change(s) })
	}
	block(b, "https://blocked.example")
	b.insert(b.p, func(s *peers.Server) { s.LastSeen = b.Now().Add(-time.Hour) })
	if o := b.attempt(postJob(), 1); o.Class != outcome.Delivered {
		t.Fatalf("the outcome is %+v, want delivered", o)
	}
	for _, asked := range b.net.Asked() {
		if !strings.HasPrefix(asked, "POST "+urlB) && asked != "POST "+urlP+"/proxy" {
			t.Errorf("asked %s", asked)
		}
	}
}

// blocking is a store in which some hosts are blocked that the list of blocked
// servers does not contain.
type blocking struct {
	sipher.Store
	hosts []string
}

func (s blocking) Blocked(ctx context.Context, url string) (*peers.Block, error) {
	if slices.Contains(s.hosts, activity.HostOf(url)) {
		return &peers.Block{ServerURL: url, Reason: "spam"}, nil
	}
	return s.Store.Blocked(ctx, url)
}

func TestAServerWhoseHostIsBlockedIsNoProxyAndNoTarget(t *testing.T) {
	b := newBed(t)
	b.blockedFromUs(notFound)
	b.insert(b.p, func(s *peers.Server) { s.URL, s.LastSeen = "https://newer.bad.example", b.Now() })
	b.insert(b.p, func(s *peers.Server) { s.LastSeen = b.Now().Add(-time.Hour) })
	proto := sipherWith(b, blocking{b.store, []string{"newer.bad.example", "target.bad.example"}})
	if o := proto.Attempt(t.Context(), postJob(), target(postJob()), 1); o.Class != outcome.Delivered {
		t.Fatalf("%+v, asked %v", o, b.net.Asked())
	}
	before := len(b.net.Asked())
	elsewhere := target(postJob())
	elsewhere.Inbox = "https://target.bad.example/inbox"
	want{class: outcome.Refused, unattempted: true, discard: true, says: "block list: spam"}.check(t, proto.Attempt(t.Context(), postJob(), elsewhere, 1))
	if n := len(b.net.Asked()); n != before {
		t.Errorf("asked %v", b.net.Asked()[before:])
	}
}

func TestOneProxyIsTriedAndIfItFailsTheOriginalErrorStands(t *testing.T) {
	for name, behavior := range map[string]sipherpeer.Behavior{
		"refuses":             {ProxyStatus: 403},
		"fails":               {ProxyStatus: 500},
		"resets":              {Reset: true},
		"answers garbage":     {ProxyBody: "hello"},
		"answers without ack": {ProxyBody: `{"method":"PROXY_RESPONSE"}`},
		"answers with an ack that is not the target's": {ProxyBody: `{"method":"PROXY_RESPONSE","payload":{"method":"PROXY_RESPONSE","status":"acknowledged","data":{},"signature":"x"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.blockedFromUs(notFound)
			b.acquainted(b.p)
			b.insert(b.p, func(s *peers.Server) {
				s.URL, s.LastSeen = "https://q.example", b.Now().Add(-time.Hour)
			})
			b.p.Behave(behavior)
			o := b.attempt(followJob(), 1)
			want{class: outcome.Retry, says: "no such host"}.check(t, o)
			if o.Reason != outcome.DNS || o.Status != 0 {
				t.Errorf("the outcome is %+v, want a name that is not found and no status", o)
			}
			if asked := b.net.Asked(); !slices.Equal(asked, []string{"POST " + urlB + sipherpeer.FollowsPath, "POST " + urlP + "/proxy"}) {
				t.Errorf("asked %v", asked)
			}
			untouched(t, b)
			if s := b.server(urlB); s.Reason != peers.DNSBlocked {
				t.Errorf("the server is %+v, want the reason DNSBlocked", s)
			}
			if s := b.server(urlP); s.IsHealthy == (name == "resets") {
				t.Errorf("the proxy: %+v", s)
			}
		})
	}
}

func TestProxyThatAnswers502MarksTheTargetWithInvalidResponse(t *testing.T) {
	b := newBed(t)
	b.blockedFromUs(notFound)
	b.acquainted(b.p)
	b.b.Behave(sipherpeer.Behavior{Status: 500})
	o := b.attempt(postJob(), 1)
	want{class: outcome.Retry, says: "no such host"}.check(t, o)
	if s := b.server(urlB); s.IsHealthy || s.Reason != peers.InvalidResponse {
		t.Errorf("the server is %+v, want unhealthy for an invalid response", s)
	}
	if s := b.server(urlP); !s.IsHealthy {
		t.Errorf("the proxy: %+v", s)
	}
}

// Even the target's own 409 proves nothing through a proxy, which could have
// made it up. When the target can be reached again, its 409 counts.
func TestAConflictThroughAProxyIsNoProofAndADirectOneIs(t *testing.T) {
	b := newBed(t)
	b.blockedFromUs(notFound)
	b.acquainted(b.p)
	b.b.Behave(sipherpeer.Behavior{Lose: true}, sipherpeer.Behavior{})
	want{class: outcome.Retry, says: "no such host"}.check(t, b.attempt(postJob(), 1))
	want{class: outcome.Retry, says: "no such host"}.check(t, b.attempt(postJob(), 2))
	b.net.Join(b.b)
	want{class: outcome.Delivered, note: "acknowledgement lost"}.check(t, b.attempt(postJob(), 3))
}

func TestEmergencySweepWakesCheckableServersAndUsesTheFirst(t *testing.T) {
	b := newBed(t)
	b.blockedFromUs(notFound)
	b.p.Know(ourURL, b.a.PublicKey(), b.a.EncryptionKey())
	b.insert(b.p, func(s *peers.Server) { s.IsHealthy, s.Reason, s.Attempts = false, peers.TimedOut, 5 })
	for url, reason := range map[string]peers.Reason{
		"https://censored.example": peers.DNSBlocked, // not checkable
		"https://dead.example":     peers.ConnRefused,
		"https://odd.example":      "SOMETHING_OLD",
	} {
		b.insert(b.p, func(s *peers.Server) { s.URL, s.IsHealthy, s.Reason = url, false, reason })
		b.net.Fail(url, dialError(syscall.ECONNREFUSED))
	}
	o := b.attempt(postJob(), 1)
	want{class: outcome.Delivered, discard: true, note: "passed on by https://p.example"}.check(t, o)
	if s := b.server(urlP); !s.IsHealthy || s.Reason != "" || s.Attempts != 0 || !s.LastSeen.Equal(b.Now()) {
		t.Errorf("the proxy is %+v, want healthy and seen now", s)
	}
	asked := b.net.Asked()
	for _, url := range []string{"https://dead.example", "https://odd.example", urlP} {
		if !slices.Contains(asked, "GET "+url+"/discover") {
			t.Errorf("%s was not swept: %v", url, asked)
		}
	}
	if slices.Contains(asked, "GET https://censored.example/discover") || slices.Contains(asked, "GET "+urlB+"/discover") {
		t.Errorf("swept who cannot be checked, or the target: %v", asked)
	}
	if s := b.server("https://dead.example"); s.IsHealthy || s.Reason != peers.ConnRefused {
		t.Errorf("a server that did not answer: %+v", s)
	}
}

func TestStrandedIsLoggedAndTheOriginalErrorStands(t *testing.T) {
	b := newBed(t)
	b.blockedFromUs(notFound)
	want{class: outcome.Retry, says: "no such host"}.check(t, b.attempt(postJob(), 1))
	if len(b.logged("no sipher server can be reached as a proxy")) != 1 {
		t.Error("not logged")
	}
}

func TestEmergencySweepAsksAllInParallelFor2Seconds(t *testing.T) {
	inFakeTime(t, func(t *testing.T, b *bed) {
		b.blockedFromUs(notFound)
		for i := range 20 {
			url := fmt.Sprintf("https://s%d.example", i)
			b.insert(b.p, func(s *peers.Server) { s.URL, s.IsHealthy, s.Reason = url, false, peers.TimedOut })
			b.net.Hang(url)
		}
		began := time.Now()
		want{class: outcome.Retry, says: "no such host"}.check(t, b.attempt(postJob(), 1))
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("took %s", took)
		}
		if asked := b.net.Asked(); len(asked) != 21 {
			t.Errorf("%d requests", len(asked))
		}
	})
}

func TestStoreOutageWhileLookingForAProxyLeavesTheOriginalError(t *testing.T) {
	for _, verb := range []string{"Servers", "Blocks"} {
		b := newBed(t)
		b.blockedFromUs(notFound)
		b.acquainted(b.p)
		broken := sipherWith(b, &outage{Store: b.store, verb: verb, err: fmt.Errorf("table is down")})
		want{class: outcome.Retry, says: "no such host"}.check(t, broken.Attempt(t.Context(), postJob(), target(postJob()), 1))
	}
}
