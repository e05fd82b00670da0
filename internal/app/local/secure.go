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
	return &secured{Conn: tls.Server(c, l.config), log: l.log}, nil
}

// secured is a TLS connection that net/http does not take for a *tls.Conn: net/http would answer
// plain HTTP itself, log each failed handshake, and bypass Write. The first Read makes the
// handshake, within the time for a request's header.
type secured struct {
	*tls.Conn
	log *slog.Logger

	shaken bool
	// plain: the client speaks HTTP without TLS.
	plain bool
}

// Read makes the handshake first. Failures are mostly strangers', so they are logged at debug
// only.
func (s *secured) Read(b []byte) (int, error) {
	if !s.shaken {
		s.shaken = true
		if err := s.Handshake(); err != nil {
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
	_, err := s.NetConn().Write(refusalOf(400, "This port speaks HTTPS, and the request came as plain HTTP: begin the address with https://."))
	return len(b), err
}
