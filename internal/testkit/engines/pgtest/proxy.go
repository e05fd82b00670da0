package pgtest

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Fault is what happens to a request on its way to the server.
type Fault int

// The faults. Without one, a request and its answer pass.
const (
	Pass      Fault = iota
	CutBefore       // the connection breaks before the request reaches the server
	CutAfter        // the server gets the request, and the connection breaks before its answer
	Late            // the answer takes a while
)

// lateness is how long a late answer takes.
const lateness = 200 * time.Millisecond

// Proxy stands between an engine and the server, and breaks requests.
type Proxy struct {
	// URL is the database as an engine reaches it through the proxy.
	URL string

	server         string
	withoutCancels bool // requests to cancel a query end here

	mu     sync.Mutex
	decide func(request []byte) Fault
	away   bool
	frozen chan struct{} // closed when the engine goes on; nil: it is not frozen
	open   map[net.Conn]bool
}

// NewProxy starts a proxy. decide is called with what an engine sends in one piece on a
// connection that is established.
func NewProxy(t testing.TB, decide func(request []byte) Fault) *Proxy {
	t.Helper()
	p := &Proxy{decide: decide}
	p.start(t, URL(t))
	return p
}

// Proxy starts a proxy before s.
func (s *Server) Proxy(decide func(request []byte) Fault) *Proxy {
	s.Helper()
	p := &Proxy{decide: decide}
	p.start(s.TB, s.URL)
	return p
}

// start listens, and passes on to a database.
func (p *Proxy) start(t testing.TB, database string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.server, p.open = u.Host, map[net.Conn]bool{}
	u.Host = l.Addr().String()
	q := u.Query()
	q.Set("sslmode", "disable") // the proxy reads what passes
	u.RawQuery = q.Encode()
	p.URL = u.String()
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.Away(true)
		all.Wait()
	})
}

// Away breaks all connections, and new ones until the server is said not to be away.
func (p *Proxy) Away(away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = away
	for c := range p.open {
		if away {
			_ = c.Close()
		}
	}
}

// Freeze keeps answers from the engine, and its requests from the server, until thaw is called, as if
// its process were stopped: nobody takes answers off the server's connections, or closes these.
func (p *Proxy) Freeze() (thaw func()) {
	frozen := make(chan struct{})
	p.mu.Lock()
	p.frozen = frozen
	p.mu.Unlock()
	return func() {
		p.mu.Lock()
		p.frozen = nil
		p.mu.Unlock()
		close(frozen)
	}
}

// thawed waits while the engine is frozen.
func (p *Proxy) thawed() {
	p.mu.Lock()
	frozen := p.frozen
	p.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
}

// keep records a connection, or closes it if the server is away.
func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		_ = c.Close()
		return false
	}
	p.open[c] = true
	return true
}

func (p *Proxy) serve(client net.Conn) {
	if !p.keep(client) {
		return
	}
	server, err := net.Dial("tcp", p.server)
	if err != nil || !p.keep(server) {
		_ = client.Close()
		return
	}
	c := &passage{client: client, server: server}
	var both sync.WaitGroup
	both.Go(func() { c.answers(p) })
	c.requests(p)
	_, _ = client.Close(), server.Close()
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, client)
	delete(p.open, server)
}

// passage is one connection.
type passage struct {
	client, server net.Conn

	mu    sync.Mutex
	ready bool // the server is ready for queries
	lost  bool // answers are lost
	late  bool // the next answer takes a while
}

// readyForQuery ends what a server says when a connection is established.
var readyForQuery = []byte{'Z', 0, 0, 0, 5, 'I'}

func (c *passage) answers(p *Proxy) {
	b := make([]byte, 64<<10)
	for {
		p.thawed()
		n, err := c.server.Read(b)
		c.mu.Lock()
		c.ready = c.ready || bytes.HasSuffix(b[:n], readyForQuery)
		lost, late := c.lost, c.late
		c.late = false
		c.mu.Unlock()
		if late {
			time.Sleep(lateness)
		}
		if lost {
			_ = c.client.Close() // the server has answered, so it has done what it was asked
			return
		}
		if _, werr := c.client.Write(b[:n]); err != nil || werr != nil {
			_, _ = c.client.Close(), c.server.Close()
			return
		}
	}
}

// cancelRequest begins a connection that asks to cancel another one's query.
var cancelRequest = []byte{0, 0, 0, 16, 0x04, 0xd2, 0x16, 0x2e}

func (c *passage) requests(p *Proxy) {
	b := make([]byte, 256<<10)
	for {
		n, err := c.client.Read(b)
		p.thawed()
		c.mu.Lock()
		ready := c.ready
		c.mu.Unlock()
		fault := Pass
		switch {
		case p.withoutCancels && bytes.HasPrefix(b[:n], cancelRequest):
			fault = CutBefore
		case ready && n > 0:
			p.mu.Lock()
			fault = p.decide(b[:n])
			p.mu.Unlock()
		}
		c.mu.Lock()
		c.lost, c.late = c.lost || fault == CutAfter, fault == Late
		c.mu.Unlock()
		if fault == CutBefore || err != nil {
			return
		}
		if _, err := c.server.Write(b[:n]); err != nil {
			return
		}
		if fault == CutAfter {
			_, _ = io.Copy(io.Discard, c.client) // until answers closes it
			return
		}
	}
}
