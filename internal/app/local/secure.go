package local

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
)

type securing struct {
	net.Listener
	config *tls.Config
	log    *slog.Logger
}

// Accept returns the next connection, whose handshake has not been made.
func (l securing) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	encrypted := tls.Server(c, l.config)
	return &secured{Conn: encrypted, tls: encrypted, log: l.log}, nil
}

// secured is a TLS connection that net/http does not take for one: net/http would answer plain
// HTTP itself, log each failed handshake, and bypass Write. So secured has none of the methods of
// *tls.Conn but those of net.Conn. The first Read makes the handshake, within the time for a
// request's header.
type secured struct {
	net.Conn // tls
	tls      *tls.Conn
	log      *slog.Logger

	shaken bool
	// plain: the client speaks HTTP without TLS.
	plain bool
}

// Read makes the handshake first. Failures are mostly strangers', so they are logged at debug
// only.
func (s *secured) Read(b []byte) (int, error) {
	if !s.shaken {
		s.shaken = true
		if err := s.tls.Handshake(); err != nil {
			var record tls.RecordHeaderError
			s.plain = errors.As(err, &record) && record.Conn != nil && likeHTTP(record.RecordHeader)
			s.log.DebugContext(context.Background(), "TLS handshake failed", "client", s.RemoteAddr(), "error", err)
			return 0, err
		}
	}
	return s.Conn.Read(b)
}

// likeHTTP reports whether the first bytes of a connection begin a request of HTTP.
func likeHTTP(head [5]byte) bool {
	switch string(head[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PATCH":
		return true
	}
	return false
}

// Write replaces net/http's own refusals. A client that speaks plain HTTP gets a refusal without
// TLS.
func (s *secured) Write(b []byte) (int, error) {
	if !s.plain {
		return writeProblem(s.Conn, b)
	}
	_, err := s.tls.NetConn().Write(refusalOf(400, "This port speaks HTTPS, and the request came as plain HTTP: begin the address with https://."))
	return len(b), err
}

// CloseWrite is called by net/http before it closes a connection whose client may still send, so
// that the client reads the answer.
func (s *secured) CloseWrite() error { return s.tls.CloseWrite() }
