package local

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/api"
)

// boundedListener limits the open connections to most. The untrusted ones of local clients may be
// three quarters of that, and so may those of other clients: clients with a token, and local
// clients, can always connect.
//
// A connection is trusted while a request of it is answered: once the request is authorised
// where a token is set, else once it is read to its end. Trusted connections are never closed.
// If a new connection would exceed a limit, an untrusted one is closed: the oldest one of the
// client with most of them. If the server has not begun to read them, or all are trusted, Accept
// waits.
type boundedListener struct {
	net.Listener
	most int

	mu     sync.Mutex
	freed  sync.Cond // a connection may be accepted, or closed for one, or the listener is closed
	open   map[*boundedConn]bool
	closed bool
}

type boundedConn struct {
	net.Conn
	listener *boundedListener
	network  string // the client's address, or the /64 of an IPv6 address
	local    bool   // the client is on this machine
	since    time.Time
	trusted  bool
	first    sync.Once // for the first Read
	read     bool      // the server has begun to read
	used     bool      // the server has read the header of a request
}

func newBoundedListener(l net.Listener, most int) *boundedListener {
	b := &boundedListener{Listener: l, most: most, open: map[*boundedConn]bool{}}
	b.freed.L = &b.mu
	return b
}

// Accept returns the next connection, when the limits allow it.
func (l *boundedListener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	from := accepted.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(from); err == nil {
		from = host
	}
	ip, err := netip.ParseAddr(from)
	c := &boundedConn{
		Conn: accepted, listener: l, network: activity.NetworkOf(from), since: time.Now(),
		local: err != nil || ip.Unmap().IsLoopback(), // a Unix socket has no address
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.closed {
		crowded := l.crowded(c.local)
		if !crowded && len(l.open) < l.most {
			break
		}
		if last := l.untrusted(c.local, crowded); last != nil {
			delete(l.open, last)
			_ = last.Conn.Close() // its client has sent no complete request
			continue
		}
		l.freed.Wait()
	}
	if l.closed {
		_ = accepted.Close()
		return nil, net.ErrClosed
	}
	l.open[c] = true
	return c, nil
}

// crowded reports whether local clients, or the others, have as many untrusted connections as
// they may.
func (l *boundedListener) crowded(local bool) bool {
	n := 0
	for c := range l.open {
		if c.local == local && !c.trusted {
			n++
		}
	}
	return n >= max(1, l.most-l.most/4)
}

// untrusted is the connection to close for a new one: one of its kind if that is crowded; else one
// of a client elsewhere; else, for a local client, a local one.
func (l *boundedListener) untrusted(local, crowded bool) *boundedConn {
	has := map[string]int{}
	for c := range l.open {
		if !c.trusted {
			has[c.network]++
		}
	}
	var first *boundedConn
	for c := range l.open {
		switch {
		case c.trusted, !c.read, c.local && !local, crowded && c.local != local:
		case first == nil, first.local && !c.local:
			first = c
		case c.local && !first.local:
		case has[c.network] > has[first.network], has[c.network] == has[first.network] && c.since.Before(first.since):
			first = c
		}
	}
	return first
}

// Close closes the listener. Connections stay, except those without a request: the server's
// Shutdown, which would not serve one any more, would wait 5 s for them.
func (l *boundedListener) Close() error {
	l.mu.Lock()
	l.closed = true
	for c := range l.open {
		if !c.used {
			_ = c.Conn.Close() // the server closes it again
		}
	}
	l.freed.Broadcast()
	l.mu.Unlock()
	return l.Listener.Close()
}

// Read implements net.Conn.
func (c *boundedConn) Read(p []byte) (int, error) {
	c.first.Do(func() { c.change(func() { c.read, c.since = true, time.Now() }) })
	return c.Conn.Read(p)
}

// Close closes the connection, so that another one may be accepted.
func (c *boundedConn) Close() error {
	c.change(func() { delete(c.listener.open, c) })
	return c.Conn.Close()
}

// change changes the connection's state. Accept then looks at it again.
func (c *boundedConn) change(f func()) {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	f()
	c.listener.freed.Signal()
}

// trust marks the connection as trusted. It reports whether the connection is still open.
func (c *boundedConn) trust() (open bool) {
	c.change(func() { c.trusted, open = true, c.listener.open[c] })
	return open
}

// in records the state that the server reports.
func (c *boundedConn) in(state http.ConnState) {
	switch state {
	case http.StateActive:
		c.change(func() { c.used = true })
	case http.StateIdle:
		c.change(func() { c.trusted, c.since = false, time.Now() })
	}
}

type connKey struct{}

// trusting marks connections of a server's boundedListener as trusted while their requests are
// answered. Where a token is set, the API reports which requests are authorised.
func trusting(s *http.Server, token bool) *http.Server {
	next := s.Handler
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	s.ConnState = func(c net.Conn, state http.ConnState) {
		if b, ok := bounded(c); ok {
			b.in(state)
		}
	}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn := r.Context().Value(connKey{})
		if b, ok := bounded(conn); ok {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			trust := func() {
				if !b.trust() {
					cancel() // nobody would get the answer
				}
			}
			if token {
				ctx = api.OnAuthorized(ctx, trust)
			} else {
				r.Body = whenRead(r.Body, trust)
			}
			r = r.WithContext(ctx)
		}
		if s, ok := conn.(*secured); ok {
			state := s.tls.ConnectionState()
			r.TLS = &state // which net/http sets for its own connections only
		}
		next.ServeHTTP(w, r)
	})
	return s
}

// bounded returns the boundedConn that conn is, or is the TLS layer of.
func bounded(conn any) (c *boundedConn, ok bool) {
	if s, is := conn.(*secured); is {
		conn = s.tls.NetConn()
	}
	c, ok = conn.(*boundedConn)
	return c, ok
}

// whenRead calls read when a body is read to its end, at once if there is none.
func whenRead(body io.ReadCloser, read func()) io.ReadCloser {
	if body == http.NoBody {
		read()
		return body
	}
	return &readBody{body, read}
}

type readBody struct {
	io.ReadCloser
	read func()
}

func (b *readBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.read()
	}
	return n, err
}
