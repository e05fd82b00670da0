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

// tlsDialer is an http.Transport's DialTLSContext.
type tlsDialer struct {
	dialer  *net.Dialer
	config  *tls.Config
	timeout time.Duration
}

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
	ctx, cancel := context.WithTimeoutCause(ctx, d.timeout, ErrTimeout)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, &TLSError{Err: err}
	}
	return conn, nil
}
