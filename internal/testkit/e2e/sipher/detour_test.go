package sipher_test

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/protocol/sipher/peers"
	"fedpost/internal/testkit/sipherpeer"
)

var notFound = &net.DNSError{Err: "no such host", Name: "b.example", IsNotFound: true}

// censored makes B unreachable for A only.
func (w *world) censored() {
	w.acquainted(w.b)
	others := sipherpeer.NewNetwork()
	others.Join(w.b)
	w.p.Through(others)
	w.net.Fail(urlB, notFound)
}

func TestACensoredDeliveryGoesThroughAProxyWithinItsAttempt(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.censored()
		w.acquainted(w.p)
		r := w.ends(w.send(followJob()))
		if r.State != "delivered" || r.Attempts != 1 {
			t.Errorf("recipient: %s", brief(r))
		}
		if got, want := w.net.Asked(), []string{followB, "POST " + urlP + "/proxy"}; !slices.Equal(got, want) {
			t.Errorf("asked %v, want %v", got, want)
		}
		got := w.b.Deliveries()
		if len(got) != 1 || !got[0].Proxied || got[0].Plaintext != followPayload || !got[0].Signed || len(got[0].Faults) > 0 {
			t.Errorf("B saw %s", brief(got))
		}
		if f := w.follows(); len(f) != 1 || !f[0].Accepted {
			t.Errorf("follow: %s", brief(f))
		}
		if s := w.server(urlB); s.Phase != client.PhaseUnhealthy || s.Reason != string(peers.DNSBlocked) {
			t.Errorf("server: %s", brief(s))
		}
	})
}

func TestAnEmergencySweepFindsAProxyAmongTheUnhealthy(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.censored()
		w.acquainted(w.p)
		if err := w.store.Sipher().MarkUnhealthy(t.Context(), urlP, peers.TimedOut, time.Now()); err != nil {
			t.Fatal(err)
		}
		if r := w.ends(w.send(postJob())); r.State != "delivered" || r.Attempts != 1 {
			t.Errorf("recipient: %s", brief(r))
		}
		if got, want := w.net.Asked(), []string{postB, "GET " + urlP + "/discover", "POST " + urlP + "/proxy"}; !slices.Equal(got, want) {
			t.Errorf("asked %v, want %v", got, want)
		}
		if s := w.server(urlP); s.Phase != client.PhaseHealthy {
			t.Errorf("server: %s", brief(s))
		}
	})
}

func TestStrandedDeliveriesAreTriedFiveTimesAndKeepTheirOwnError(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.censored()
		r := w.ends(w.send(postJob()))
		if r.State != "dead" || r.Attempts != 5 || !strings.Contains(r.LastError, "no such host") {
			t.Errorf("recipient: %s", brief(r))
		}
		if n := len(w.logged("no sipher server can be reached as a proxy")); n != 5 {
			t.Errorf("logged %d times", n)
		}
	})
}

func TestAProxyThatFailsCostsTheTryAndTheNextTryFindsAnother(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.censored()
		w.acquainted(w.p)
		w.p.Behave(sipherpeer.Behavior{ProxyStatus: 502}, sipherpeer.Behavior{})
		r := w.ends(w.send(postJob()))
		if r.State != "delivered" || r.Attempts != 2 {
			t.Errorf("recipient: %s", brief(r))
		}
		if got := w.b.Deliveries(); len(got) != 1 {
			t.Errorf("B saw %d", len(got))
		}
	})
}

// TestAWholeAttemptFitsItsInvocation: an unknown server that shows its card slowly, hangs, and
// leads to a proxy that hangs; five times over, and nothing is lost or counted twice.
func TestAWholeAttemptFitsItsInvocation(t *testing.T) {
	settings := map[string]string{"SIPHER_THREAT_POLICIES": `{"TIMEOUT":{"proxyEligible":true}}`}
	runWith(t, options{settings: settings}, func(t *testing.T, w *world) {
		w.acquainted(w.b, w.p)
		w.b.Behave(sipherpeer.Behavior{Hang: true})
		w.p.Behave(sipherpeer.Behavior{Hang: true})
		begin := time.Now()
		id := w.send(postJob())
		pass(20 * time.Second) // in the middle of the proxy's time
		if r := w.look(id); r.State != "queued" || r.Attempts != 0 {
			t.Errorf("while the first attempt runs: %s", brief(r))
		}
		r := w.ends(id)
		if r.State != "dead" || r.Attempts != 5 || len(w.b.Deliveries()) != 5 || !strings.Contains(r.LastError, "no answer in time") {
			t.Errorf("%+v after %s, B saw %d", r, time.Since(begin), len(w.b.Deliveries()))
		}
	})
}
