package outbound

import (
	"context"
	"crypto/tls"
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
//	neither HTTP nor TLS                 cannot be known        invalid-answer
//	connection ended, nothing answered   cannot be known        reset
//	no answer in time                    cannot be known        timeout
//	caller gave up                       cannot be known        ErrStopped
//	connection ended before a byte of    no                     sent on another connection
//	  the request was written
//	this process closed the connection   cannot be known        ErrStopped: not the host's fault
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
		if n >= resends || fresh && !k.http2 || !is[*unseenError](err) || r.Context().Err() != nil {
			return nil, err
		}
	}
}

// unseenError says that the host has not read the request.
type unseenError struct{ error }

func (e *unseenError) Unwrap() error { return e.error }

// send sends r on k, and returns k to the pool when the answer's body is closed.
func (p *pool) send(k *kept, r *http.Request) (*http.Response, error) {
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
	if err != nil {
		p.put(k)
		return nil, err
	}
	res.Body = lease{res.Body, sync.OnceFunc(func() { p.put(k) })}
	return res, nil
}

// h2 sends requests on an HTTP/2 connection.
type h2 struct{ *http.ClientConn }

// RoundTrip implements http.RoundTripper. Its error is an *unseenError if the host has not read r.
func (c h2) RoundTrip(r *http.Request) (*http.Response, error) {
	var wrote atomic.Bool
	res, err := c.ClientConn.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		WroteHeaders: func() { wrote.Store(true) },
	})))
	if err == nil {
		return res, nil
	}
	stream, reset := errors.AsType[streamError](err)
	if !wrote.Load() || reset && stream.Code == refusedStream || err.Error() == goneAway {
		err = &unseenError{err}
	}
	return nil, err
}

const (
	refusedStream = 7 // RFC 9113, section 7
	// goneAway is the text of an untyped error of net/http: the stream's number is above the
	// last one that the host's GOAWAY names.
	goneAway = "http2: Transport received Server's graceful shutdown GOAWAY"
)

// lease returns a connection to the pool when the answer's body is closed.
type lease struct {
	io.ReadCloser
	done func() // acts once
}

func (l lease) Close() error {
	defer l.done()
	return l.ReadCloser.Close()
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
	dial := p.plain
	if scheme == "https" {
		dial = p.secure
	}
	d, err := dial(ctx, address)
	if err != nil {
		return nil, err
	}
	secure, ok := d.Conn.(*tls.Conn)
	if !ok || secure.ConnectionState().NegotiatedProtocol != "h2" {
		return &kept{conn: &http1{conn: d.Conn, raw: d.raw}, raw: d.raw, users: 1}, nil
	}
	c, err := p.transport.NewClientConn(context.WithValue(ctx, secureKey{}, secure), scheme, address)
	if err != nil {
		_ = secure.Close()
		return nil, err
	}
	if err := c.Reserve(); err != nil {
		// The host closed the connection, or accepts no request on it.
		_ = c.Close()
		return nil, fmt.Errorf("%w: %w", err, io.EOF)
	}
	return &kept{conn: h2{c}, raw: d.raw, http2: true, meter: d.meter, users: 1}, nil
}

type secureKey struct{}

// handOver is the DialTLSContext of the transport: dial has made the connection.
func handOver(ctx context.Context, _, _ string) (net.Conn, error) {
	if secure, ok := ctx.Value(secureKey{}).(*tls.Conn); ok {
		return secure, nil
	}
	return nil, errors.New("net/http dials no connection by itself")
}
