package sipher_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"fedpost/client"
	"fedpost/internal/testkit/sipherpeer"
)

// site serves the origin of a server that uses fedpost: fedpost answers for it at /discover, and
// the server's own program takes deliveries.
func site(f *fedpost, program http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/discover" {
			f.api.ServeHTTP(w, r)
			return
		}
		program.ServeHTTP(w, r)
	})
}

// TestTwoServersThatUseFedpostRegisterEachOther: neither knows the other, and
// one delivery from A to B is enough for B to deliver to A without asking.
func TestTwoServersThatUseFedpostRegisterEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := sipherpeer.NewNetwork()
		peerA, peerB := sipherpeer.New(t, urlA), sipherpeer.New(t, urlB)
		a := start(t, net, options{settings: peerA.Settings(), token: "a secret of server A"})
		b := start(t, net, options{settings: peerB.Settings(), token: "a secret of server B"})
		net.Serve(urlA, site(a, peerA))
		net.Serve(urlB, site(b, peerB))
		// The programs know each other's keys from elsewhere.
		peerA.Know(urlB, peerB.PublicKey(), peerB.EncryptionKey())
		peerB.Know(urlA, peerA.PublicKey(), peerA.EncryptionKey())

		if r := a.ends(a.send(followJob())); r.State != "delivered" || r.Attempts != 1 {
			t.Errorf("recipient: %s", brief(r))
		}
		// A asks B, registers, is asked by B, and delivers.
		want := []string{"GET " + urlB + "/discover", "POST " + urlB + "/discover", "GET " + urlA + "/discover", followB}
		if got := net.Asked(); !slices.Equal(got, want) {
			t.Errorf("asked %v, want %v", got, want)
		}
		for _, c := range []struct {
			of   *fedpost
			url  string
			keys *sipherpeer.Peer
		}{{a, urlB, peerB}, {b, urlA, peerA}} {
			s := c.of.server(c.url)
			if s.Phase != client.PhaseHealthy || s.Keys.Signing != c.keys.PublicKey() || s.Keys.Encryption != c.keys.EncryptionKey() {
				t.Errorf("%s is known as %+v", c.url, s)
			}
		}

		back := postJob()
		back.ServerURL, back.Recipients = urlA, client.To(urlA+sipherpeer.PostsPath)
		back.Payload = strings.ReplaceAll(back.Payload, urlA, urlB)
		if r := b.ends(b.send(back)); r.State != "delivered" {
			t.Errorf("recipient: %s", brief(r))
		}
		if got := net.Asked(); len(got) != 5 || got[4] != "POST "+urlA+sipherpeer.PostsPath {
			t.Errorf("asked %v", got)
		}
		if got := peerA.Deliveries(); len(got) != 1 || !got[0].Signed || len(got[0].Faults) > 0 || got[0].Plaintext != back.Payload {
			t.Errorf("A got %s", brief(got))
		}
		// Each lists the other to third servers.
		for url, f := range map[string]*fedpost{urlB: a, urlA: b} {
			var card struct{ Peers []struct{ URL string } }
			f.get("/discover", &card)
			if len(card.Peers) != 1 || card.Peers[0].URL != url {
				t.Errorf("peers %+v, want %s", card.Peers, url)
			}
		}
	})
}
