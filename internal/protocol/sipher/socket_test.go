package sipher_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/outbound"
	"fedpost/internal/protocol/sipher"
	"fedpost/internal/protocol/sipher/crypto"
	"fedpost/internal/testkit/sipherpeer"
)

// overSockets is a protocol that talks to a peer over real connections, and the
// peer.
func overSockets(t *testing.T, c outbound.Config) (*sipher.Protocol, *sipherpeer.Peer, sipher.Store) {
	t.Helper()
	b := newBed(t)
	peer := sipherpeer.Start(t, "")
	peer.Discover(sipherpeer.Discovery{CallBack: true})
	ours := httptest.NewUnstartedServer(nil)
	env := b.a.Settings()
	env[crypto.SettingOrigin] = "http://" + ours.Listener.Addr().String()
	id, err := crypto.LoadIdentity(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	c.UserAgent = "fedpost/test"
	client, err := outbound.New(c)
	if err != nil {
		t.Fatal(err)
	}
	p := sipher.New(sipher.Config{Identity: id, Store: b.store, HTTP: client, Log: slog.New(slog.DiscardHandler), Now: b.Now})
	ours.Config.Handler = http.HandlerFunc(p.Discover)
	ours.Start()
	t.Cleanup(ours.Close)
	return p, peer, b.store
}

func socketJob(p *sipherpeer.Peer) (activity.Activity, activity.Target) {
	a := job("deliver-follow", strings.ReplaceAll(followPayload, urlB, p.URL))
	a.ServerURL = p.URL
	return a, activity.Target{Inbox: p.URL + sipherpeer.FollowsPath, Stands: 1}
}

func TestStrangersMeetOverRealConnections(t *testing.T) {
	p, peer, store := overSockets(t, outbound.Config{AllowPrivate: true})
	a, to := socketJob(peer)
	if err := p.Record(t.Context(), a, activity.Target{}); err != nil {
		t.Fatal(err)
	}
	accepted.check(t, p.Attempt(t.Context(), a, to, 1))
	if got := peer.Sequence(); !slices.Equal(got, []string{"GET /discover", "POST /discover", "POST " + sipherpeer.FollowsPath}) {
		t.Errorf("the peer saw %v", got)
	}
	if fs, _, err := store.Follows(t.Context(), "", 10); err != nil || len(fs) != 1 || !fs[0].Accepted {
		t.Errorf("follows %+v, error %v; want one that is accepted", fs, err)
	}
}

func TestHangingAndResettingPeersOverRealConnections(t *testing.T) {
	p, peer, store := overSockets(t, outbound.Config{AllowPrivate: true, Timeout: 50e6})
	a, to := socketJob(peer)
	for _, c := range []struct {
		behavior sipherpeer.Behavior
		reason   outcome.Reason
	}{{sipherpeer.Behavior{Hang: true}, outcome.Timeout}, {sipherpeer.Behavior{Reset: true}, outcome.ConnReset}} {
		peer.Behave(c.behavior)
		o := p.Attempt(t.Context(), a, to, 1)
		want{class: outcome.Retry}.check(t, o)
		if s, err := store.Server(t.Context(), peer.URL); o.Reason != c.reason || err != nil || s.IsHealthy {
			t.Errorf("the outcome is %+v, the server %+v, error %v; want the reason %s and an unhealthy server", o, s, err, c.reason)
		}
	}
}

func TestPrivateAddressesAreNotDiscovered(t *testing.T) {
	for name, c := range map[string]outbound.Config{
		"https only":       {},
		"plain http":       {AllowHTTP: true},
		"another loopback": {AllowHTTP: true, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}},
	} {
		t.Run(name, func(t *testing.T) {
			p, peer, _ := overSockets(t, c)
			a, to := socketJob(peer)
			want{class: outcome.Retry, unattempted: true, tried: true, says: "discover"}.check(t, p.Attempt(t.Context(), a, to, 1))

			// Nor are they called back.
			w := httptest.NewRecorder()
			body := registration(peer.URL, peer.PublicKey(), peer.EncryptionKey())
			p.Discover(w, httptest.NewRequest("POST", "/discover", strings.NewReader(body)))
			if w.Code != 400 || len(peer.Received()) > 0 {
				t.Errorf("%d %s; the peer saw %v", w.Code, w.Body, peer.Sequence())
			}
		})
	}
}

func TestLargeAcknowledgementsAreReadAndLargerOnesAreNone(t *testing.T) {
	for size, w := range map[int]want{
		200 << 10:            delivered,
		sipher.MaxAnswer + 1: {class: outcome.Refused, says: "no JSON"},
	} {
		p, peer, _ := overSockets(t, outbound.Config{AllowPrivate: true, MaxBody: sipher.MaxAnswer})
		peer.Behave(sipherpeer.Behavior{Body: `{"method":"PROXY_RESPONSE","status":"acknowledged","data":{"x":"` +
			crypto.Encode(make([]byte, size*3/4)) + `"}}`})
		a := postJob()
		a.ServerURL = peer.URL
		w.check(t, p.Attempt(t.Context(), a, activity.Target{Inbox: peer.URL + sipherpeer.PostsPath}, 1))
	}
}
