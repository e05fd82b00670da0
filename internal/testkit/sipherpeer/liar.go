package sipherpeer

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"
)

// Liar answers as a peer does, and then changes the answer.
type Liar struct {
	Peer *Peer
	// Lie returns the status and the body to answer in place of those of the peer.
	Lie func(r *http.Request, status int, body string) (int, string)
}

// ServeHTTP implements http.Handler.
func (l Liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	honest := httptest.NewRecorder()
	l.Peer.ServeHTTP(honest, r)
	status, body := l.Lie(r, honest.Code, honest.Body.String())
	plain(w, status, body)
}

// Drip puts a handler on the network whose answers' bodies come a byte at a time.
func (n *Network) Drip(server string, h http.Handler, every time.Duration) {
	n.set(server, route{in: h, body: func(ctx context.Context, body io.ReadCloser) io.ReadCloser {
		return &dripping{ReadCloser: body, ctx: ctx, every: every}
	}})
}

type dripping struct {
	io.ReadCloser
	ctx   context.Context
	every time.Duration
}

func (d *dripping) Read(p []byte) (int, error) {
	select {
	case <-time.After(d.every):
	case <-d.ctx.Done():
		return 0, context.Cause(d.ctx)
	}
	return d.ReadCloser.Read(p[:min(len(p), 1)])
}

// Endless puts a server on the network whose answers never end, and returns a counter of
// the bytes that callers have read from these answers.
func (n *Network) Endless(server string) *atomic.Int64 {
	read := new(atomic.Int64)
	accept := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	n.set(server, route{in: accept, body: func(_ context.Context, _ io.ReadCloser) io.ReadCloser { return &endless{read} }})
	return read
}

type endless struct{ read *atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.read.Add(int64(len(p)))
	return len(p), nil
}

func (*endless) Close() error { return nil }
