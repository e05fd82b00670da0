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
	"strings"
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
//	HTTP_1_1_REQUIRED, of the stream or  no (RFC 9113, 7        sent on HTTP/1.1
//	  of a GOAWAY below the stream; or     and 8.7)
//	  that with INADEQUATE_SECURITY
//	HTTP_1_1_REQUIRED of a GOAWAY not    cannot be known        invalid-answer; HTTP/1.1 at the
//	  below it, or no frame of HTTP/2                             next try
//	header block malformed or too long   yes, but net/http      invalid-answer
//	                                       hides the status
//	stream reset otherwise, also with    cannot be known        reset (net/http's pool would
//	  PROTOCOL_ERROR                                              send again on PROTOCOL_ERROR)
//	connection ended, ping unanswered    cannot be known        reset
//
// A 421 says that the request was not looked at (RFC 9110, section 15.5.20): it is sent once more, on a
// new connection of HTTP/1.1, unless that did not help lately.
//
// Where the table says "cannot be known", the activity counts as not delivered: a host that
// gets it twice can tell by the activity's id.
func (p *pool) RoundTrip(r *http.Request) (*http.Response, error) {
	address := net.JoinHostPort(r.URL.Hostname(), port(r.URL.Scheme, r.URL.Port()))
	again := false // a 421 was answered
	for n := 0; ; n++ {
		k, fresh, err := p.get(r.Context(), r.URL.Scheme, address)
		if err != nil {
			return nil, err
		}
		res, err := p.send(k, r)
		switch misdirected := err == nil && res.StatusCode == http.StatusMisdirectedRequest; {
		case misdirected && again:
			p.seconds.learn(address, (*second).noHTTP1)
			return res, nil
		case misdirected && n < resends && !p.seconds.of(address).once:
			again = true
			_ = res.Body.Close()
			p.distrust(k)
			continue
		case err == nil:
			return res, nil
		case is[*http1Error](err) && p.distrust(k):
			return nil, err
		}
		if n >= resends || fresh && !k.http2 || !is[*unseenError](err) || r.Context().Err() != nil {
			return nil, err
		}
	}
}

// unseenError says that the host has not read the request.
type unseenError struct{ error }

func (e *unseenError) Unwrap() error { return e.error }

// http1Error says that the host does not want HTTP/2, or does not speak it.
type http1Error struct{ error }

func (e *http1Error) Unwrap() error { return e.error }

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
		p.silent(r.Context(), k, err)
		p.put(k)
		return nil, err
	}
	if !k.answered.Swap(true) {
		p.seconds.answered(k.address())
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
	unseen := !wrote.Load() || reset && stream.Code == refusedStream
	switch text := err.Error(); {
	case reset && stream.Code == http1Required, text == goneAwayError+"HTTP_1_1_REQUIRED", text == goneAwayError+"INADEQUATE_SECURITY":
		err, unseen = &http1Error{err}, true
	case text == goneAway:
		unseen = true
	case text == notBegun, strings.Contains(text, noFrame), strings.Contains(text, goneAwayLate):
		err = &http1Error{err}
	}
	if unseen {
		err = &unseenError{err}
	}
	return nil, err
}

const (
	refusedStream = 7 // RFC 9113, section 7
	http1Required = 13
	// Texts of untyped errors of net/http. With the first two, the stream's number is above the last
	// one that the host's GOAWAY names.
	goneAway      = "http2: Transport received Server's graceful shutdown GOAWAY"
	goneAwayError = "http2: Transport received GOAWAY from server ErrCode:"
	// goneAwayLate is in the text if the stream's number is not above it.
	goneAwayLate = ", ErrCode=HTTP_1_1_REQUIRED,"
	// noFrame is for what is too long for a frame, as a status line of HTTP/1.1 is.
	noFrame = "http2: frame too large"
	// notBegun is for a connection that ended before its first request.
	notBegun = "http2: client conn could not be established"
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
		if ctx.Err() == nil {
			p.seconds.learn(address, func(w *second) { w.http1 = true })
		}
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
