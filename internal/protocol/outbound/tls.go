package outbound

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// TLSError says that the TLS handshake failed or that the certificate is not valid.
// crypto/tls has no type for most of these errors, so this package makes the handshake
// itself and wraps its errors.
type TLSError struct{ Err error }

func (e *TLSError) Error() string { return "TLS: " + e.Err.Error() }
func (e *TLSError) Unwrap() error { return e.Err }

// tlsDialer makes the connections of a pool.
type tlsDialer struct {
	dialer  *net.Dialer
	config  *tls.Config
	timeout time.Duration
	turns   *turns
}

// dialPlain makes a connection without TLS.
func (d *tlsDialer) dialPlain(ctx context.Context, network, address string) (net.Conn, error) {
	raw, err := d.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: raw}
	tell(ctx, raw, w, nil)
	return w, nil
}

// DialContext makes a connection with TLS. One that speaks
// HTTP/2 is returned as a *tls.Conn, because net/http recognises HTTP/2 by that type.
func (d *tlsDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	raw, err := d.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	m := newMeter(raw)
	conn, err := d.handshake(ctx, m, host)
	if err != nil {
		raw.Close()
		return nil, &TLSError{Err: err}
	}
	if conn.ConnectionState().NegotiatedProtocol == "h2" {
		tell(ctx, raw, nil, m)
		return conn, nil
	}
	w := &wire{Conn: conn}
	tell(ctx, raw, w, nil)
	return w, nil
}

// handshake waits for a turn to compute the handshake. Only then the time for the handshake
// begins.
func (d *tlsDialer) handshake(ctx context.Context, raw net.Conn, host string) (*tls.Conn, error) {
	config := d.config.Clone()
	config.ServerName = host
	if d, ok := ctx.Value(dialledKey{}).(*dialled); ok {
		config.ClientSessionCache = tickets{config.ClientSessionCache, d.ticket}
	}
	computing := &computing{Conn: raw, ctx: ctx, turns: d.turns}
	conn := tls.Client(computing, config)
	if err := computing.begin(); err != nil {
		return nil, err
	}
	defer func() { computing.end(); computing.turns = nil }()
	ctx, cancel := context.WithTimeoutCause(ctx, d.timeout, ErrTimeout)
	defer cancel()
	return conn, conn.HandshakeContext(ctx)
}
