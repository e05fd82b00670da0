package local

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
)

// securing is a listener whose connections speak TLS.
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

// secured is a connection with TLS that is no *tls.Conn for net/http, which would answer
// plain HTTP by itself, log each handshake that a stranger lets fail, and write its refusals
// where they cannot be seen. The handshake is made by the first Read, within the time that a
// request's header may take.
type secured struct {
	*tls.Conn
	log *slog.Logger

	shaken bool
	// plain says that the client speaks HTTP without TLS.
	plain bool
}

// Read makes the handshake first. Who fails it is a stranger as a rule, so that is logged
// for whoever looks for it only.
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

// Write is guest.Write above TLS. Plain HTTP gets its answer without TLS.
func (s *secured) Write(b []byte) (int, error) {
	if s.plain {
		return len(b), s.refusePlain()
	}
	refusal := problemOf(b)
	if refusal == nil {
		return s.Conn.Write(b)
	}
	if _, err := s.Conn.Write(refusal); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (s *secured) refusePlain() error {
	text := refusalOf(400, "This port speaks HTTPS, and the request came as plain HTTP: begin the address with https://.")
	_, err := s.NetConn().Write(text)
	return err
}
