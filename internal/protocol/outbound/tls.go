package outbound

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// TLSError says that the handshake failed or the certificate does not hold.
// crypto/tls has no type of its own for most of that, so the handshake is done
// here, where it is known to be the handshake that fails.
type TLSError struct{ Err error }

func (e *TLSError) Error() string { return "TLS: " + e.Err.Error() }
func (e *TLSError) Unwrap() error { return e.Err }

// tlsDialer makes the connections of an http.Transport that belongs to a pool.
type tlsDialer struct {
	dialer  *net.Dialer
	config  *tls.Config
	timeout time.Duration
}

// dialPlain is the DialContext of the transport.
func (d *tlsDialer) dialPlain(ctx context.Context, network, address string) (net.Conn, error) {
	raw, err := d.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: raw}
	tell(ctx, raw, w)
	return w, nil
}

// DialContext is the DialTLSContext of the transport. A connection that speaks
// HTTP/2 is returned as a *tls.Conn, by which net/http knows it.
func (d *tlsDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	raw, err := d.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	config := d.config.Clone()
	config.ServerName = host
	conn := tls.Client(raw, config)
	hand, cancel := context.WithTimeoutCause(ctx, d.timeout, ErrTimeout)
	defer cancel()
	if err := conn.HandshakeContext(hand); err != nil {
		raw.Close()
		return nil, &TLSError{Err: err}
	}
	if conn.ConnectionState().NegotiatedProtocol == "h2" {
		tell(ctx, raw, nil)
		return conn, nil
	}
	w := &wire{Conn: conn}
	tell(ctx, raw, w)
	return w, nil
}
