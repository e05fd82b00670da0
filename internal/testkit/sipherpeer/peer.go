// Package sipherpeer is a Sipher server for tests: the target of deliveries, the
// proxy that passes them on, and the peer that discovers and registers.
//
// It is a second implementation of the protocol, written with the standard library and
// golang.org/x/crypto only: it imports no package of fedpost and opens envelopes with its
// own code. A test in which both sides share code would not notice a mistake in that code,
// and the likeliest mistake in this protocol is a sender and a receiver that understand
// only each other.
//
// A new test makes a peer, a network that leads to it, and says with Behave (deliveries),
// Discover (discovery) or a Liar (any field of any answer) what the peer does wrong:
//
//	peer := sipherpeer.New(t, "https://b.example")
//	network := sipherpeer.NewNetwork(peer)
//	peer.Behave(sipherpeer.Behavior{Form: sipherpeer.Inline})
//	client, err := outbound.New(outbound.Config{UserAgent: "fedpost/test", Transport: network})
//	… // deliver an activity to the peer
//	if got := peer.Deliveries(); len(got) != 1 {
//		t.Errorf("the peer has %d deliveries, want 1: %+v", len(got), got)
//	}
//
// newBed of internal/protocol/sipher has all this around a Protocol with two such peers.
package sipherpeer

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The endpoints of real servers that take deliveries.
const (
	FollowsPath = "/api/auth/social/follows"
	PostsPath   = "/api/auth/social/posts"
)

// Peer is a running server.
type Peer struct {
	// URL is the peer's URL in the protocol. The peer may listen at another address:
	// see Network.
	URL string

	keys   keys
	server *httptest.Server // nil if it listens nowhere
	client *http.Client

	mu         sync.Mutex
	script     []Behavior
	discovery  Discovery
	registered map[string]card
	follows    map[string]bool
	posts      map[string]bool
	rotations  map[string]*rotation // of the keys of other servers
	received   []Received
}

// New makes a server with the URL url that opens no socket: only a Network reaches the
// server. It works in a testing/synctest bubble, whose fake time would stand still while
// a goroutine waits on a socket. The server accepts every correct delivery and
// acknowledges it in the wrapped form.
func New(tb testing.TB, url string) *Peer {
	tb.Helper()
	return &Peer{
		URL: url, keys: newKeys(tb), client: http.DefaultClient,
		registered: map[string]card{}, follows: map[string]bool{}, posts: map[string]bool{}, rotations: map[string]*rotation{},
	}
}

// Start runs a server like that of New on a socket until the test ends. Its URL is url,
// or the socket's address if url is empty.
func Start(tb testing.TB, url string) *Peer {
	tb.Helper()
	p := New(tb, url)
	p.server = httptest.NewServer(p)
	if url == "" {
		p.URL = p.server.URL
	}
	tb.Cleanup(func() {
		// Requests that hang would be waited for.
		p.server.CloseClientConnections()
		p.server.Close()
	})
	return p
}

// Through makes the peer's own requests go through rt: the call-back to a server that
// registers, and the requests that the peer passes on as a proxy.
func (p *Peer) Through(rt http.RoundTripper) { p.client = &http.Client{Transport: rt} }

// PublicKey returns the Ed25519 public key in base64.
func (p *Peer) PublicKey() string { return p.keys.publicKey() }

// EncryptionKey returns the X25519 public key in base64.
func (p *Peer) EncryptionKey() string { return p.keys.encryptionKey() }

// Settings returns the environment of a server with this peer's keys.
func (p *Peer) Settings() map[string]string { return p.keys.settings(p.URL) }

// Rotate gives the peer new keys.
func (p *Peer) Rotate(tb testing.TB) {
	tb.Helper()
	k := newKeys(tb)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = k
}

// Know registers a server that has not asked for it.
func (p *Peer) Know(url, publicKey, encryptionKey string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.registered[url] = card{url, publicKey, encryptionKey}
}

// Knows reports whether a server is registered, and with which keys.
func (p *Peer) Knows(url string) (publicKey, encryptionKey string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.registered[url]
	return c.PublicKey, c.EncryptionKey, ok
}

// Behave sets how the peer treats the next deliveries, one after another; the
// last goes on for all that follow.
func (p *Peer) Behave(script ...Behavior) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.script = script
}

// Discover sets how the peer answers at /discover.
func (p *Peer) Discover(d Discovery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.discovery = d
}

// Received is one request that reached the peer.
type Received struct {
	Method string
	Path   string
	Header http.Header
	Body   string
	// Plaintext is what a delivery's envelope held, empty if it did not open.
	Plaintext string
	// Signed says that the signature is the sender's.
	Signed bool
	// Faults lists the mistakes in the request.
	Faults []string
	// Proxied says that the request came sealed through a proxy.
	Proxied bool
}

// Received returns all requests so far.
func (p *Peer) Received() []Received {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.received)
}

// Sequence returns the requests so far as "METHOD /path".
func (p *Peer) Sequence() []string {
	var s []string
	for _, r := range p.Received() {
		s = append(s, r.Method+" "+r.Path)
	}
	return s
}

// Deliveries returns the requests so far that were deliveries.
func (p *Peer) Deliveries() []Received {
	return slices.DeleteFunc(p.Received(), func(r Received) bool {
		return !r.Proxied && r.Path != FollowsPath && r.Path != PostsPath
	})
}

func (p *Peer) record(r Received) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.received = append(p.received, r)
}

// behavior returns the Behavior for the next delivery.
func (p *Peer) behavior() Behavior {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.script) == 0 {
		return Behavior{}
	}
	b := p.script[0]
	if len(p.script) > 1 {
		p.script = p.script[1:]
	}
	return b
}

// ServeHTTP implements http.Handler.
func (p *Peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := readAll(r)
	got := Received{Method: r.Method, Path: r.URL.Path, Header: r.Header.Clone(), Body: body}
	switch {
	case r.URL.Path == "/discover":
		p.record(got)
		p.serveDiscover(w, r, body)
	case r.Method != http.MethodPost:
		p.record(got)
		refuse(w, http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED")
	case r.URL.Path == "/discover/rotate/init":
		p.record(got)
		p.beginRotation(w, body)
	case r.URL.Path == "/discover/rotate/confirm":
		p.record(got)
		p.confirmRotation(w, body)
	case r.URL.Path == "/proxy":
		p.serveProxy(w, r, got)
	case r.URL.Path == FollowsPath, r.URL.Path == PostsPath:
		p.deliver(w, r, p.behavior(), got)
	default:
		p.record(got)
		refuse(w, http.StatusNotFound, "NOT_FOUND")
	}
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// Encode fails only if the client has closed the connection.
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status int, code string) {
	answer(w, status, map[string]string{"error": strings.ToLower(code), "code": code})
}
