package outbound

import (
	"container/list"
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"
)

const (
	// keepSecond: after that time the first way is tried again.
	keepSecond = 24 * time.Hour
	// mostSeconds is how many hosts are remembered, of some 300 bytes each.
	mostSeconds = 10_000
)

// second is what is done differently for a host that does not answer in the usual way, though it may be
// well: of two addresses one may be dead behind its router, a box before the server may take no
// ClientHello of more than one packet, and HTTP/2 may be switched on where it does not work. The zero
// value is the usual way.
type second struct {
	// failed holds addresses that took a connection and gave no answer, the latest failure last, at most
	// mostAddresses.
	failed []failure
	// http1: HTTP/2 does not work.
	http1 bool
	// once: sending a request again at once on HTTP/1.1 did not help, so it is left to the next try.
	once  bool
	until time.Time
}

type failure struct {
	addr    netip.Addr
	classic bool // the next handshake with this address offers no ML-KEM
}

// fail records a failure of addr. The slice may be shared, so it is not changed.
func (s *second) fail(addr netip.Addr, classic bool) {
	kept := make([]failure, 0, mostAddresses+1)
	for _, f := range s.failed {
		if f.addr != addr {
			kept = append(kept, f)
		}
	}
	kept = append(kept, failure{addr, classic})
	s.failed = kept[max(0, len(kept)-mostAddresses):]
}

// classic reports whether a handshake with addr offers no ML-KEM, whose key share makes the ClientHello
// longer than a packet. Where the last handshake with another address failed, it may have been for that.
func (s second) classic(addr netip.Addr) bool {
	for _, f := range s.failed {
		if f.addr == addr {
			return f.classic
		}
	}
	return len(s.failed) > 0 && s.failed[len(s.failed)-1].classic
}

// noHTTP1 records that HTTP/1.1 is no better than HTTP/2.
func (s *second) noHTTP1() {
	s.once = s.once || s.http1
	s.http1 = false
}

// pick returns the address to try next: one that has not failed, of the other family than the last that
// has; else the one whose failure is longest ago. found is not empty.
func (s second) pick(found []netip.Addr) netip.Addr {
	best := found[0]
	for _, a := range found[1:] {
		if s.rank(a) < s.rank(best) {
			best = a
		}
	}
	return best
}

func (s second) rank(addr netip.Addr) int {
	for i, f := range s.failed {
		if f.addr == addr {
			return 2 + i
		}
	}
	if n := len(s.failed); n > 0 && s.failed[n-1].addr.Is4() == addr.Is4() {
		return 1
	}
	return 0
}

// seconds remembers second ways by address (name and port). A way that was never answered is forgotten
// first when there are too many, so that hosts which never answer drive out none that do.
type seconds struct {
	now func() time.Time

	mu              sync.Mutex
	hosts           map[string]*list.Element // of *remembered
	guesses, proven list.List                // those used last in front
}

type remembered struct {
	second
	address string
	in      *list.List
}

func newSeconds(now func() time.Time) *seconds {
	if now == nil {
		now = time.Now
	}
	return &seconds{now: now, hosts: make(map[string]*list.Element)}
}

// of returns what is known of the host at an address.
func (s *seconds) of(address string) second {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.find(address); m != nil {
		return m.second
	}
	return second{}
}

// find returns nil for a host of which nothing is known. The caller holds s.mu.
func (s *seconds) find(address string) *remembered {
	el := s.hosts[address]
	if el == nil {
		return nil
	}
	m := el.Value.(*remembered)
	if !s.now().Round(0).Before(m.until) {
		s.forget(m)
		return nil
	}
	m.in.MoveToFront(el)
	return m
}

// forget removes a host. The caller holds s.mu.
func (s *seconds) forget(m *remembered) {
	m.in.Remove(s.hosts[m.address])
	delete(s.hosts, m.address)
}

// learn changes what is known of a host. It is forgotten a day after the first change.
func (s *seconds) learn(address string, change func(*second)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.find(address)
	if m == nil {
		for len(s.hosts) >= mostSeconds {
			last := s.guesses.Back()
			if last == nil {
				last = s.proven.Back()
			}
			s.forget(last.Value.(*remembered))
		}
		m = &remembered{address: address, in: &s.guesses, second: second{until: s.now().Round(0).Add(keepSecond)}}
		s.hosts[address] = s.guesses.PushFront(m)
	}
	change(&m.second)
}

// answered records that a host was reached as it is known.
func (s *seconds) answered(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.find(address); m != nil && m.in == &s.guesses {
		s.guesses.Remove(s.hosts[address])
		m.in = &s.proven
		s.hosts[address] = s.proven.PushFront(m)
	}
}

// gaveUp reports whether the caller ended a context, which says nothing about the host.
func gaveUp(ctx context.Context) bool {
	return ctx.Err() != nil && !errors.Is(context.Cause(ctx), ErrTimeout)
}

// silent records that a request failed on a connection on which nothing was ever answered: the next
// connection is to another address.
func (p *pool) silent(ctx context.Context, k *kept, err error) {
	text := err.Error()
	if is[streamError](err) || is[*http1Error](err) && text != notBegun || text == goneAway {
		k.answered.Store(true)
	}
	unbegun := is[*unseenError](err) && ctx.Err() != nil // the time was up before
	if k.answered.Load() || unbegun || errors.Is(err, ErrStopped) || gaveUp(ctx) {
		return
	}
	addr := remote(k.raw)
	p.seconds.learn(k.address(), func(w *second) {
		if !k.http2 {
			w.noHTTP1()
		}
		w.fail(addr, w.classic(addr))
	})
	p.mu.Lock()
	p.retire(k)
	p.mu.Unlock()
}

// distrust makes later requests to k's host use new connections of HTTP/1.1, and reports whether that did
// not help lately.
func (p *pool) distrust(k *kept) (once bool) {
	p.seconds.learn(k.address(), func(w *second) { once, w.http1 = w.once, true })
	p.renew(k.host)
	return once
}

func (k *kept) address() string {
	_, address, _ := strings.Cut(k.host, "://")
	return address
}

// remote is the address of the host at the other end, also behind a proxy.
func remote(c net.Conn) netip.Addr {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{} // an onion service
}
