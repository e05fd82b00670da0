package sipherpeer

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// Network is an HTTP transport that reaches servers by made-up URLs such as
// https://b.example, wherever the servers listen, and can cut servers off.
type Network struct {
	mu     sync.Mutex
	routes map[string]route
	asked  []string
}

type route struct {
	to  *url.URL
	err error
	// hang holds a request until the caller cancels the request.
	hang bool
	in   http.Handler
	// body wraps the body of in's answer; nil leaves the body as it is.
	body func(context.Context, io.ReadCloser) io.ReadCloser
}

// NewNetwork returns a network with these peers on it.
func NewNetwork(peers ...*Peer) *Network {
	n := &Network{routes: map[string]route{}}
	for _, p := range peers {
		n.Join(p)
	}
	return n
}

// Join puts a peer on the network, or back on it.
func (n *Network) Join(p *Peer) {
	if p.server == nil {
		n.Serve(p.URL, p)
		return
	}
	u, err := url.Parse(p.server.URL)
	if err != nil {
		panic(err) // httptest makes sound URLs
	}
	n.set(p.URL, route{to: u})
}

// Serve puts a handler on the network.
func (n *Network) Serve(server string, h http.Handler) { n.set(server, route{in: h}) }

// Fail makes every request to a server fail with err.
func (n *Network) Fail(server string, err error) { n.set(server, route{err: err}) }

// Hang makes a server never answer.
func (n *Network) Hang(server string) { n.set(server, route{hang: true}) }

// Asked returns the requests that were made, as "METHOD url".
func (n *Network) Asked() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.asked...)
}

func (n *Network) set(server string, r route) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.routes[strings.TrimSuffix(server, "/")] = r
}

// RoundTrip implements http.RoundTripper.
func (n *Network) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	n.asked = append(n.asked, r.Method+" "+r.URL.String())
	to, ok := n.routes[r.URL.Scheme+"://"+r.URL.Host]
	n.mu.Unlock()
	switch {
	case !ok:
		return nil, &unroutable{r.URL.Host}
	case to.err != nil:
		return nil, to.err
	case to.hang:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case to.in != nil:
		res, err := Serve(to.in, r)
		if err == nil && to.body != nil {
			res.Body, res.ContentLength = to.body(r.Context(), res.Body), -1
		}
		return res, err
	}
	moved := r.Clone(r.Context())
	moved.Host = r.URL.Host
	moved.URL.Scheme, moved.URL.Host = to.to.Scheme, to.to.Host
	return http.DefaultTransport.RoundTrip(moved)
}

type unroutable struct{ host string }

func (e *unroutable) Error() string { return "no route to " + e.host }
