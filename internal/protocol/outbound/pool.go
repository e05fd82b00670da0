package outbound

import (
	"cmp"
	"container/list"
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// keepIdle is the longest that an unused connection is kept. Many servers close one after a
	// minute, and a request that is sent at that moment is lost.
	keepIdle = 30 * time.Second
	// defaultIdle is for all hosts together: a Lambda has 1,024 file descriptors.
	defaultIdle = 256
	// maxIdlePerHost is the number of unused connections to one host.
	maxIdlePerHost = 4
	// closeTime is for sending close-notify. A socket with room takes it at once.
	closeTime = time.Millisecond
)

// pool keeps connections for later requests. The pool of net/http takes a connection back before
// the caller has the answer. If the connection is closed then, a POST that the host has accepted
// fails, and is sent again. In this pool a connection belongs to its request until the answer has
// been read. An HTTP/2 connection serves several requests at once, and is closed when none is left.
type pool struct {
	transport     *http.Transport // speaks HTTP/2; its own pool is not used
	plain, secure dialer
	now           func() time.Time
	most          int // unused connections
	// answer bounds the bytes that a host may send on HTTP/2 for each request; 0: no limit.
	answer int64

	sessions sessions // of TLS
	seconds  *seconds
	// For tests: firstWait, and a sleep of settleStep.
	first time.Duration
	pause func()

	mu    sync.Mutex
	hosts map[string]*hostConns // by scheme, name and port: those with a connection or a request
	idle  list.List             // of *kept without a request, the one unused for longest in front
	spare list.List             // of those in idle whose host has another there
	timer *time.Timer           // runs while idle is not empty
}

type hostConns struct {
	free []*kept // connections that can take a request
	out  int     // connections with a request, and those that are being made
	// ticketWait is open until the first answer shows whether TLS sessions can be resumed; nil:
	// that is known, or no connection is made.
	ticketWait chan struct{}
	waiting    list.List // of *waiter, the one that has waited for longest in front
}

// kept is a connection of a pool.
type kept struct {
	host string
	conn client
	raw  net.Conn // the socket
	// http2: several requests at once. Then meter bounds what the host sends; answers on HTTP/1 are
	// bounded.
	http2    bool
	meter    *meter
	answered atomic.Bool // the host has sent something in answer to a request

	// Guarded by pool.mu.
	users   int  // requests under way
	out     bool // no more requests: closed when users is 0
	since   time.Time
	inIdle  *list.Element // in pool.idle; nil while in use
	inSpare *list.Element // in pool.spare
}

// client sends requests on a connection: *http1 or h2. A request needs a reservation, which RoundTrip
// and Release end. An error of RoundTrip is an *unseenError if the host has not read the request.
type client interface {
	http.RoundTripper
	Reserve() error
	Release()
	Available() int
	Err() error
	Close() error
}

type dialer func(ctx context.Context, address string) (dialled, error)

// dialled is a new connection: TCP, or TLS above it.
type dialled struct {
	net.Conn
	raw   net.Conn // the socket
	meter *meter   // below TLS; nil: none
}

func newPool(d *tlsDialer, t *http.Transport, s sessions, now func() time.Time, most int) *pool {
	p := &pool{
		transport: t, plain: d.plain, secure: d.secure, sessions: s, seconds: d.seconds, now: now, most: cmp.Or(most, defaultIdle), hosts: make(map[string]*hostConns),
		first: firstWait, pause: func() { time.Sleep(settleStep) },
	}
	d.ticket = func(address string, came bool) { p.ticket("https://"+address, came) }
	return p
}

// get returns a connection for a request, and whether it is new. The caller hands it to put once.
func (p *pool) get(ctx context.Context, scheme, address string) (k *kept, fresh bool, err error) {
	host := scheme + "://" + address
	for wait := scheme == "https"; ; wait = false {
		k, w := p.take(host, wait)
		if w != nil {
			if k, err = p.wait(ctx, w); err != nil {
				return nil, false, err
			}
		}
		if k == nil {
			break
		}
		if !p.ended(k) && k.conn.Reserve() == nil {
			return k, false, nil
		}
		p.discard(k)
	}
	k, err = p.dial(ctx, scheme, address)
	if full(err) {
		// The kept connections may use up the file descriptors.
		p.closeIdle()
		k, err = p.dial(ctx, scheme, address)
	}
	if err != nil {
		p.dialFailed(host)
		return nil, false, err
	}
	k.host = host
	if k.http2 {
		p.share(k)
	}
	return k, true, nil
}

// take lends a kept connection. If there is none and the caller may wait, take returns a waiter if
// other requests use or make a connection. Else it returns neither, and the caller makes one. It
// closes connections that were unused for too long, by the wall clock: timers and the monotonic
// clock stop while a Lambda is frozen.
func (p *pool) take(host string, wait bool) (k *kept, w *waiter) {
	p.mu.Lock()
	old := p.sweep()
	h := p.hosts[host]
	if h == nil {
		h = &hostConns{}
		p.hosts[host] = h
	}
	switch {
	case len(h.free) > 0:
		k = h.free[len(h.free)-1]
		p.lend(k)
	case wait && h.out > 0:
		w = &waiter{host: host, got: make(chan *kept, 1), ticketWait: h.ticketWait}
		w.queued = h.waiting.PushBack(w)
	default:
		h.out++
		p.awaitTicket(host, h)
	}
	p.mu.Unlock()
	closeAll(old)
	return k, w
}

// lend gives k another user. The caller holds p.mu.
func (p *pool) lend(k *kept) {
	if k.users++; k.users == 1 {
		p.hosts[k.host].out++
	}
	p.unlist(k)
	if !k.http2 {
		p.withdraw(k)
	}
}

// share offers a new HTTP/2 connection to other requests, too.
func (p *pool) share(k *kept) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.hosts[k.host]
	h.free = append(h.free, k)
	h.ticketKnown()
	for h.waiting.Len() > 0 {
		k.users++
		h.next(k)
	}
}

func (p *pool) begin(k *kept) {
	if k.meter != nil && p.answer > 0 {
		p.mu.Lock()
		defer p.mu.Unlock()
		k.meter.allow(p.answer * int64(k.users))
	}
}

// put takes a connection back when its request has ended and its answer, if any, has been read.
func (p *pool) put(k *kept) {
	usable := k.usable()
	p.mu.Lock()
	h := p.hosts[k.host]
	h.ticketKnown()
	k.users--
	if !usable {
		p.retire(k)
	}
	var done []*kept
	switch {
	case !k.out && h.waiting.Len() > 0:
		k.users++
		h.next(k)
	case k.users > 0:
	case k.out, h.idle() >= maxIdlePerHost:
		p.retire(k)
		done = append(done, k)
		p.less(k.host)
	default:
		h.out--
		if h.idle() > 0 {
			k.inSpare = p.spare.PushBack(k)
		}
		if !k.http2 {
			h.free = append(h.free, k)
		}
		k.since = p.now().Round(0)
		k.inIdle = p.idle.PushBack(k)
		done = p.sweep()
		if p.idle.Len() > p.most {
			// A connection to each of many hosts saves more than several to one.
			least := cmp.Or(p.spare.Front(), p.idle.Front()).Value.(*kept)
			p.retire(least)
			done = append(done, least)
		}
		if p.timer == nil {
			p.timer = time.AfterFunc(keepIdle, p.tick)
		}
	}
	p.mu.Unlock()
	closeAll(done)
}

// discard gives up a connection that take returned.
func (p *pool) discard(k *kept) {
	p.mu.Lock()
	k.users--
	p.retire(k)
	last := k.users == 0
	if last {
		p.less(k.host)
	}
	p.mu.Unlock()
	if last {
		k.close()
	}
}

// renew makes the next request to a host get a new connection.
func (p *pool) renew(host string) {
	p.mu.Lock()
	var done []*kept
	for h := p.hosts[host]; h != nil && len(h.free) > 0; {
		k := h.free[0]
		if p.retire(k); k.users == 0 {
			done = append(done, k)
		}
	}
	p.mu.Unlock()
	closeAll(done)
}

func (p *pool) closeIdle() {
	p.mu.Lock()
	var all []*kept
	for p.idle.Len() > 0 {
		k := p.idle.Front().Value.(*kept)
		p.retire(k)
		all = append(all, k)
	}
	p.mu.Unlock()
	closeAll(all)
}

// tick closes connections that became too old while no request came.
func (p *pool) tick() {
	p.mu.Lock()
	old := p.sweep()
	if p.timer = nil; p.idle.Len() > 0 {
		p.timer = time.AfterFunc(keepIdle, p.tick)
	}
	p.mu.Unlock()
	closeAll(old)
}

// sweep retires the connections that were unused for longer than keepIdle. The caller closes them
// without the lock.
func (p *pool) sweep() (old []*kept) {
	now := p.now().Round(0)
	for el := p.idle.Front(); el != nil; el = p.idle.Front() {
		k := el.Value.(*kept)
		if now.Sub(k.since) <= keepIdle {
			break
		}
		p.retire(k)
		old = append(old, k)
	}
	return old
}

// retire removes k from the connections that requests can get. The caller holds p.mu.
func (p *pool) retire(k *kept) {
	k.out = true
	p.unlist(k)
	p.withdraw(k)
}

func (p *pool) unlist(k *kept) {
	if k.inIdle == nil {
		return
	}
	p.idle.Remove(k.inIdle)
	k.inIdle = nil
	if k.inSpare == nil {
		// One of the host's others is not spare any more.
		for _, k = range p.hosts[k.host].free {
			if k.inSpare != nil {
				break
			}
		}
	}
	if k.inSpare != nil {
		p.spare.Remove(k.inSpare)
		k.inSpare = nil
	}
}

func (p *pool) withdraw(k *kept) {
	h := p.hosts[k.host]
	if i := slices.Index(h.free, k); i >= 0 {
		h.free = slices.Delete(h.free, i, i+1)
	}
	p.tidy(k.host)
}

// tidy forgets a host without connections and requests. The caller holds p.mu.
func (p *pool) tidy(host string) {
	if h := p.hosts[host]; len(h.free) == 0 && h.out == 0 && h.waiting.Len() == 0 {
		delete(p.hosts, host)
	}
}

// idle is how many connections to the host have no request.
func (h *hostConns) idle() (n int) {
	for _, k := range h.free {
		if k.inIdle != nil {
			n++
		}
	}
	return n
}

func closeAll(ks []*kept) {
	for _, k := range ks {
		k.close()
	}
}

// close closes a connection without a request. Other hosts' requests wait for it, and if the host
// reads nothing, crypto/tls alone would take five seconds, net/http a quarter of one.
func (k *kept) close() {
	late := time.AfterFunc(closeTime, func() { _ = k.raw.Close() })
	defer late.Stop()
	_ = k.conn.Close()
}

func (k *kept) usable() bool {
	return k.conn.Err() == nil && k.conn.Available() > 0
}
