package e2e

import (
	"crypto"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fedpost/internal/testkit/fediverse"
)

// Remote is the server of a stranger on loopback, with an address of its own. It
// verifies what it gets and otherwise does what its script says, on any path.
type Remote struct {
	*fediverse.Inbox
	// Host is its authority, as circuits are kept by.
	Host string

	t       testing.TB
	handler http.Handler
	probes  atomic.Int64
	mu      sync.Mutex
	server  *http.Server // nil while it is down
	port    net.Listener
}

// Remote starts a server that knows the keys which the world has so far.
func (w *World) Remote() *Remote {
	w.t.Helper()
	return w.RemoteBehind(func(h http.Handler) http.Handler { return h })
}

// RemoteBehind is like Remote, with a handler between the server and the network.
func (w *World) RemoteBehind(front func(http.Handler) http.Handler) *Remote {
	w.t.Helper()
	w.mu.Lock()
	in := fediverse.NewInbox(maps.Clone(w.keys))
	w.mu.Unlock()
	r := &Remote{Inbox: in, t: w.t}
	r.handler = front(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodGet {
			r.probes.Add(1)
			http.NotFound(rw, req)
			return
		}
		in.ServeHTTP(rw, req)
	}))
	r.start()
	return r
}

func (r *Remote) start() {
	r.t.Helper()
	l := Listen(r.t)
	r.Host = l.Addr().String()
	r.serve(l)
	r.t.Cleanup(func() { r.Down() })
}

func (r *Remote) serve(l net.Listener) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.port, r.server = l, &http.Server{Handler: r.handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	s := r.server
	go func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			r.t.Errorf("server %s: %v", r.Host, err)
		}
	}()
}

// URL is an inbox of the server.
func (r *Remote) URL(path string) string { return "http://" + r.Host + path }

// URLs are n inboxes of the server.
func (r *Remote) URLs(n int) []string {
	urls := make([]string, n)
	for i := range urls {
		urls[i] = r.URL(fmt.Sprintf("/users/%d/inbox", i))
	}
	return urls
}

// Probes is how often a health check has asked for the server.
func (r *Remote) Probes() int { return int(r.probes.Load()) }

// Down takes the server away: connections to it are refused.
func (r *Remote) Down() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.server == nil {
		return
	}
	// It may not have begun to serve yet, and then does not know its port. That
	// either of both was closed by the other is no error.
	_ = r.server.Close()
	_ = r.port.Close()
	r.server = nil
}

// Up brings it back under the same address.
func (r *Remote) Up() {
	r.t.Helper()
	l, err := net.Listen("tcp", r.Host)
	if err != nil {
		r.t.Fatal(err)
	}
	r.serve(l)
}

// addresses counts the loopback addresses that were given out. Tests of other packages, which
// run at the same time, begin elsewhere.
var addresses atomic.Uint32

func init() { addresses.Store(uint32(os.Getpid()) << 7) }

// Listen opens a port at an address of 127.0.0.0/8 that nothing else has, so that
// whoever listens there is a host of its own; where there is only 127.0.0.1, there.
// Nobody takes the port while a server is down.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	n := addresses.Add(1)
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 64+n>>16&63, n>>8&255, n&255))
	if err != nil {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// publicKeys are by key id.
type publicKeys map[string]crypto.PublicKey
