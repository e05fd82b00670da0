package local

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"fedpost/internal/activity"
)

// door is a listener that lets at most so many connections be open. When all are taken,
// another one is let in for one that waits: whose request has not arrived yet, or that is
// kept open between requests. It is the oldest of the client that has most of them. So
// clients that send nothing, or a byte now and then, shut nobody out, and mostly each other
// in. A connection whose request is being answered is never closed.
type door struct {
	net.Listener
	most int

	mu     sync.Mutex
	left   sync.Cond // a guest has left, or the door is closed
	guests map[*guest]bool
	closed bool
}

// guest is a connection.
type guest struct {
	net.Conn
	door *door
	from string // the client's address, or the /64 of an IPv6 address
	came time.Time
	// served says that a request of this connection is being answered.
	served bool
}

func newDoor(l net.Listener, most int) *door {
	d := &door{Listener: l, most: most, guests: map[*guest]bool{}}
	d.left.L = &d.mu
	return d
}

// Accept returns the next connection, when there is a place for it.
func (d *door) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	from := c.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(from); err == nil {
		from = host
	}
	g := &guest{Conn: c, door: d, from: activity.NetworkOf(from), came: time.Now()}
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.guests) >= d.most && !d.closed {
		if w := d.waiting(); w != nil {
			delete(d.guests, w)
			_ = w.Conn.Close() // nobody is told of it: its client only waited
			continue
		}
		d.left.Wait()
	}
	if d.closed {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	d.guests[g] = true
	return g, nil
}

// waiting is the guest that makes room for another one; nil if all are being served.
func (d *door) waiting() *guest {
	has := map[string]int{}
	for g := range d.guests {
		if !g.served {
			has[g.from]++
		}
	}
	var first *guest
	for g := range d.guests {
		switch {
		case g.served:
		case first == nil, has[g.from] > has[first.from], has[g.from] == has[first.from] && g.came.Before(first.came):
			first = g
		}
	}
	return first
}

// Close closes the listener. Guests stay.
func (d *door) Close() error {
	d.mu.Lock()
	d.closed = true
	d.left.Broadcast()
	d.mu.Unlock()
	return d.Listener.Close()
}

// Close closes the connection and makes room for another one.
func (g *guest) Close() error {
	g.door.mu.Lock()
	delete(g.door.guests, g)
	g.door.left.Signal()
	g.door.mu.Unlock()
	return g.Conn.Close()
}

func (g *guest) setServed(served bool) {
	g.door.mu.Lock()
	defer g.door.mu.Unlock()
	if g.served = served; !served {
		g.door.left.Signal()
	}
}

type guestKey struct{}

// withGuests tells the guests of a server's door when they are served: from the beginning
// of a request's handler until its answer is written.
func withGuests(s *http.Server) *http.Server {
	next := s.Handler
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, guestKey{}, c) }
	s.ConnState = func(c net.Conn, state http.ConnState) {
		if g, ok := guestOf(c); ok && state == http.StateIdle {
			g.setServed(false)
		}
	}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn := r.Context().Value(guestKey{})
		if g, ok := guestOf(conn); ok {
			g.setServed(true)
		}
		if s, ok := conn.(*secured); ok {
			state := s.ConnectionState()
			r.TLS = &state // which net/http sets for its own connections only
		}
		next.ServeHTTP(w, r)
	})
	return s
}

// guestOf returns the guest that a connection is, or that TLS is spoken on.
func guestOf(conn any) (g *guest, ok bool) {
	if s, is := conn.(*secured); is {
		conn = s.NetConn()
	}
	g, ok = conn.(*guest)
	return g, ok
}
