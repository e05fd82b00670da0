package outbound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
)

// resends is how often a request may be sent again on another connection.
const resends = 3

// RoundTrip implements http.RoundTripper. A request is sent a second time only if the host
// cannot have read the first: see unseen.
//
// If an error comes after a request was written, the host may have accepted the request
// all the same, and a retry would deliver twice. For HTTP/1:
//
//	what happened                        the host answered?     and so
//	status line came, rest is broken,    yes, with that status  an answer with that status
//	  cut off, too long or too late
//	host closed before it read all       yes, if a status line  as above; net/http alone
//	  of the request                       came                   would drop the answer
//	only interim answers (1xx)           no                     invalid-answer or time-out
//	not HTTP at all                      cannot be known        invalid-answer
//	connection ended, nothing answered   cannot be known        reset
//	no answer in time                    cannot be known        timeout
//	caller gave up                       cannot be known        ErrStopped
//	connection ended before a byte of    no                     sent on another connection
//	  the request was written
//	any other error without an answer    cannot be known        ErrStopped: not the host's fault
//
// And for HTTP/2:
//
//	stream refused (REFUSED_STREAM), or  no (RFC 9113, 8.7)     sent on another connection
//	  above the last one of a GOAWAY
//	header block malformed or too long   yes, but net/http      invalid-answer
//	                                       hides the status
//	stream reset otherwise, also with    cannot be known        reset (net/http's pool would
//	  PROTOCOL_ERROR                                              send again on PROTOCOL_ERROR)
//	connection ended, ping unanswered    cannot be known        reset
//
// Where the table says "cannot be known", the activity counts as not delivered: a host that
// gets it twice can tell by the activity's id.
func (p *pool) RoundTrip(r *http.Request) (*http.Response, error) {
	address := net.JoinHostPort(r.URL.Hostname(), port(r.URL.Scheme, r.URL.Port()))
	for n := 0; ; n++ {
		k, fresh, err := p.get(r.Context(), r.URL.Scheme, address)
		if err != nil {
			return nil, err
		}
		res, err := p.send(k, r)
		if err == nil {
			return res, nil
		}
		var again *unseenError
		if n >= resends || fresh && k.wire != nil || !errors.As(err, &again) || r.Context().Err() != nil {
			return nil, err
		}
	}
}

// unseenError says that the host has not read the request.
type unseenError struct{ error }

func (e *unseenError) Unwrap() error { return e.error }

// send sends r on k, and returns k to the pool when the answer's body is closed.
func (p *pool) send(k *kept, r *http.Request) (*http.Response, error) {
	var headers *atomic.Bool // of HTTP/2: an HTTP/1 connection's wire knows
	if k.wire == nil {
		headers = new(atomic.Bool)
		r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
			WroteHeaders: func() { headers.Store(true) },
		}))
	}
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			k.conn.Release()
			p.put(k)
			return nil, err
		}
		r.Body = body // r is a copy: Client.Do made one
	}
	p.begin(k)
	res, err := k.conn.RoundTrip(r)
	switch {
	case err == nil && res.StatusCode == http.StatusSwitchingProtocols:
		// The body would be the connection itself, which has no end and ignores the
		// request's context.
		_ = res.Body.Close()
		res.Body = http.NoBody
		fallthrough
	case err == nil:
		res.Body = &lease{ReadCloser: res.Body, done: func() { p.put(k) }}
		return res, nil
	}
	defer p.put(k)
	if k.wire == nil {
		return nil, unseen(err, headers.Load())
	}
	wrote, heard, status := k.wire.state()
	switch {
	case status != 0:
		return answered(r, status, err), nil
	case !wrote:
		return nil, &unseenError{err}
	case !heard && r.Context().Err() == nil && !theirs(err):
		return nil, fmt.Errorf("%w: %w", ErrStopped, err)
	}
	return nil, err
}

// unseen wraps err if it says that the host has not read a request on HTTP/2.
func unseen(err error, wrote bool) error {
	var stream streamError
	if !wrote || errors.As(err, &stream) && stream.Code == refusedStream || err.Error() == goneAway {
		return &unseenError{err}
	}
	return err
}

const (
	refusedStream = 7 // RFC 9113, section 7
	// goneAway is the text of an untyped error of net/http: the stream's number is above the
	// last one that the host's GOAWAY names.
	goneAway = "http2: Transport received Server's graceful shutdown GOAWAY"
)

// theirs reports whether the connection or the host is the cause of err, and not this machine.
func theirs(err error) bool {
	if errors.Is(err, net.ErrClosed) {
		return false
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// answered returns an answer of which only the status is known.
func answered(r *http.Request, status int, err error) *http.Response {
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header), Body: io.NopCloser(broken{err}), ContentLength: -1, Request: r,
	}
}

// broken is a body that cannot be read.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

// lease returns a connection to the pool when the answer's body is closed.
type lease struct {
	io.ReadCloser
	once sync.Once
	done func()
}

func (l *lease) Close() error {
	err := l.ReadCloser.Close()
	l.once.Do(l.done)
	return err
}

func port(scheme, port string) string {
	switch {
	case port != "":
		return port
	case scheme == "http":
		return "80"
	}
	return "443"
}

func (p *pool) dial(ctx context.Context, scheme, address string) (*kept, error) {
	host := scheme + "://" + address
	d := &dialled{ticket: func(came bool) { p.ticket(host, came) }}
	ctx = context.WithValue(ctx, dialledKey{}, d)
	dial := p.plain
	if scheme == "https" {
		dial = p.secure
	}
	conn, err := dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	k := &kept{wire: d.wire, raw: d.raw, meter: d.meter, users: 1}
	if k.wire != nil {
		k.conn = newHTTP1(conn, k.wire, k.raw)
		return k, nil
	}
	d.conn = conn
	c, err := p.transport.NewClientConn(ctx, scheme, address)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	if err := c.Reserve(); err != nil {
		// The host closed the connection, or accepts no request on it.
		_ = c.Close()
		return nil, fmt.Errorf("%w: %w", err, io.EOF)
	}
	k.conn = c
	return k, nil
}

// dialled carries what a dialer knows to the pool, and an HTTP/2 connection to net/http.
type dialled struct {
	conn  net.Conn
	raw   net.Conn
	wire  *wire
	meter *meter
	// ticket is called with true when the host has sent a TLS session ticket, and with false
	// when it has refused an earlier one.
	ticket func(came bool)
}

type dialledKey struct{}

func report(ctx context.Context, raw net.Conn, w *wire, m *meter) {
	if d, ok := ctx.Value(dialledKey{}).(*dialled); ok {
		d.raw, d.wire, d.meter = raw, w, m
	}
}

// handOver is the DialTLSContext of the transport.
func handOver(ctx context.Context, _, _ string) (net.Conn, error) {
	if d, ok := ctx.Value(dialledKey{}).(*dialled); ok && d.conn != nil {
		return d.conn, nil
	}
	return nil, errors.New("net/http dials no connection by itself")
}
