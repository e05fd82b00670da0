package fediverse

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"syscall"
)

// Network is an http.RoundTripper to servers in memory, for outbound.Config's
// Transport. It opens no sockets and waits for nothing but its handlers, so it
// works in a testing/synctest bubble.
type Network struct {
	mu    sync.Mutex
	hosts map[string]http.Handler
}

// NewNetwork returns a network without hosts: all look-ups fail.
func NewNetwork() *Network { return &Network{hosts: make(map[string]http.Handler)} }

// Add connects a server under an authority, such as "a.example". Adding nil is
// a host that refuses connections.
func (n *Network) Add(authority string, h http.Handler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[authority] = h
}

// Remove disconnects a server: its name does not resolve any more.
func (n *Network) Remove(authority string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.hosts, authority)
}

// RoundTrip implements http.RoundTripper.
func (n *Network) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	h, ok := n.hosts[r.URL.Host]
	n.mu.Unlock()
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: r.URL.Host, IsNotFound: true}
	}
	if h == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	in, err := received(r)
	if err != nil {
		return nil, err
	}
	type result struct {
		res *http.Response
		err error
	}
	done := make(chan result, 1)
	go func() {
		defer func() {
			switch p := recover(); p {
			case nil:
			case http.ErrAbortHandler:
				done <- result{err: &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}}
			default:
				done <- result{err: fmt.Errorf("handler of %s: %v", r.URL.Host, p)}
			}
		}()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, in)
		done <- result{res: w.Result()}
	}()
	select {
	case res := <-done:
		return res.res, res.err
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// received turns a client's request into what a server gets.
func received(r *http.Request) (*http.Request, error) {
	in := r.Clone(r.Context())
	in.RequestURI = r.URL.RequestURI()
	if in.Host == "" {
		in.Host = r.URL.Host
	}
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body.Close()
	}
	in.Body = io.NopCloser(bytes.NewReader(body))
	return in, nil
}
