package outbound

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"math"
	"net"
	"net/url"
	"sync/atomic"
	"time"

	"fedpost/internal/activity"
)

// TLSError says that the TLS handshake failed or that the certificate is not valid. crypto/tls has
// no type for most of these errors.
type TLSError struct{ Err error }

func (e *TLSError) Error() string { return "TLS: " + e.Err.Error() }
func (e *TLSError) Unwrap() error { return e.Err }

// tlsDialer makes the connections of a pool.
type tlsDialer struct {
	dialer    *route
	seconds   *seconds
	config    *tls.Config
	timeout   time.Duration
	semaphore *semaphore
	proven    func(host string) bool
	// ticket, if set, is called with true when a host has sent a TLS session ticket, and with false when
	// it has refused an earlier one.
	ticket func(address string, came bool)
}

func (d *tlsDialer) plain(ctx context.Context, address string) (dialled, error) {
	raw, err := d.dialer.DialContext(ctx, "tcp", address)
	return dialled{Conn: raw, raw: raw}, err
}

func (d *tlsDialer) secure(ctx context.Context, address string) (dialled, error) {
	raw, err := d.dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return dialled{}, err
	}
	m := newMeter(raw)
	conn, err := d.handshake(ctx, m, address)
	if err != nil {
		raw.Close()
		return dialled{}, &TLSError{Err: err}
	}
	return dialled{conn, raw, m}, nil
}

// handshake waits for a permit to compute; then the time for the handshake begins. An error wraps
// ErrStopped if the time ended in a wait for a permit.
func (d *tlsDialer) handshake(ctx context.Context, raw net.Conn, address string) (*tls.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	config := d.config.Clone()
	config.ServerName = host
	known, addr := d.seconds.of(address), remote(raw)
	classic := known.classic(addr)
	if classic {
		config.CurvePreferences = []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}
	}
	if known.http1 {
		config.NextProtos = []string{"http/1.1"}
	}
	certificates := &certificates{config: config}
	config.InsecureSkipVerify = true // VerifyConnection verifies
	read := false                    // the host has read our ClientHello
	config.VerifyConnection = func(s tls.ConnectionState) error { read = true; return certificates.verify(s) }
	config.ClientSessionCache = tickets{config.ClientSessionCache, certificates, func(came bool) {
		if d.ticket != nil {
			d.ticket(address, came)
		}
	}}
	computing := &computing{Conn: raw, ctx: ctx, semaphore: d.semaphore, purpose: d.purpose(address)}
	conn := tls.Client(computing, config)
	if err := computing.begin(); err != nil {
		return nil, err
	}
	defer func() { computing.end(); computing.semaphore = nil }()
	ctx, cancel := context.WithTimeoutCause(ctx, d.timeout, ErrTimeout)
	defer cancel()
	computing.ctx = ctx
	if err := conn.HandshakeContext(ctx); err != nil {
		if computing.err == nil && !gaveUp(ctx) {
			d.seconds.learn(address, func(w *second) {
				if known.http1 {
					w.noHTTP1()
				}
				w.fail(addr, classic == read)
			})
		}
		return nil, cmp.Or(computing.err, context.Cause(ctx), err)
	}
	return conn, nil
}

// purpose is what a permit for a handshake with the host at an address is for.
func (d *tlsDialer) purpose(address string) purpose {
	if host, err := activity.Authority(&url.URL{Scheme: "https", Host: address}); err == nil && d.proven(host) {
		return begun
	}
	return handshake
}

// Bounds of the TLS sessions that are kept, one for each host.
const (
	mostSessions = 2048
	// mostSession is for the size of one, in bytes. It holds all certificates that the host has
	// sent: some 6 KB as a rule, but up to 300 KB, with which a stranger could fill the memory.
	mostSession = 16 << 10
)

// sessions is a cache without sessions that are too large. Their hosts get a full handshake each
// time.
type sessions struct{ tls.ClientSessionCache }

func (s sessions) Put(key string, cs *tls.ClientSessionState) {
	if cs != nil && sizeOf(cs) > mostSession {
		cs = nil // removes an earlier one, whose ticket may be used up
	}
	s.ClientSessionCache.Put(key, cs)
}

// tickets is the cache for one connection. It returns only sessions whose certificates are valid,
// and reports the host's tickets to the pool.
type tickets struct {
	tls.ClientSessionCache
	certificates *certificates
	ticket       func(came bool)
}

func (t tickets) Get(key string) (*tls.ClientSessionState, bool) {
	cs, ok := t.ClientSessionCache.Get(key)
	if ok && cs != nil && !t.certificates.resumable(cs) {
		t.Put(key, nil)
		return nil, false
	}
	return cs, ok
}

func (t tickets) Put(key string, cs *tls.ClientSessionState) {
	if cs != nil {
		t.certificates.save(cs)
	}
	t.ClientSessionCache.Put(key, cs)
	t.ticket(cs != nil)
}

func (s sessions) has(host string) bool {
	cs, ok := s.Get(host)
	return ok && cs != nil
}

// sizeOf is the encoded size of a session; too large if it cannot be encoded.
func sizeOf(cs *tls.ClientSessionState) int {
	ticket, state, err := cs.ResumptionState()
	if err != nil || state == nil {
		return mostSession + 1
	}
	b, err := state.Bytes()
	if err != nil {
		return mostSession + 1
	}
	return len(ticket) + len(b)
}

// meter is the socket below the TLS of an HTTP/2 connection. It bounds what the host may send:
// net/http answers frames such as PING without end, also while no request is under way, so a few
// hosts could take all processors.
type meter struct {
	net.Conn
	left atomic.Int64 // bytes
}

func newMeter(c net.Conn) *meter {
	m := &meter{Conn: c}
	m.left.Store(math.MaxInt64) // until the first request: crypto/tls bounds the handshake
	return m
}

// perAnswer is how many bytes a host may send for a request: the body twice, as the next part may be
// under way when reading ends, and headers and frames.
func perAnswer(maxBody int) int64 { return 2*int64(maxBody) + 4*maxHeader }

func (m *meter) allow(n int64) { m.left.Store(n) }

var errGreedy = &InvalidAnswerError{errors.New("the host sent more than an answer, so the connection was closed")}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	if m.left.Add(-int64(n)) < 0 {
		return 0, errGreedy
	}
	return n, err
}
