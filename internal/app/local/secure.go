package local

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"fedpost/internal/api/problem"
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

// refusalEnd follows the status line where net/http itself refuses a request, such as GET /%zz.
// Answers of handlers differ: they have a Date.
const refusalEnd = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// Write replaces net/http's own refusals.
func (c *boundedConn) Write(b []byte) (int, error) { return writeProblem(c.Conn, b) }

// writeProblem writes b, as a problem document if b is one of net/http's own refusals, which are
// plain text. net/http writes each of them in one call, and offers no other hook.
func writeProblem(to io.Writer, b []byte) (int, error) {
	refusal := problemOf(b)
	if refusal == nil {
		return to.Write(b)
	}
	if _, err := to.Write(refusal); err != nil {
		return 0, err
	}
	return len(b), nil
}

// problemOf is a refusal of net/http as a problem document (RFC 9457); nil if b is none.
func problemOf(b []byte) []byte {
	if !bytes.HasPrefix(b, []byte("HTTP/1.1 ")) {
		return nil
	}
	line, text, ok := bytes.Cut(b, []byte(refusalEnd))
	if !ok || bytes.Contains(line, []byte("\r\n")) || len(line) < len("HTTP/1.1 400") {
		return nil
	}
	status, err := strconv.Atoi(string(line[9:12]))
	if err != nil {
		return nil
	}
	detail := "The server refused the request: " + string(text) + "."
	switch status {
	case http.StatusBadRequest:
		if string(text) == "400 Bad Request" {
			detail = "The request is not valid HTTP, or its URL is malformed: each % must be followed by two hexadecimal digits."
		}
	case http.StatusRequestHeaderFieldsTooLarge:
		detail = fmt.Sprintf("The header of the request is larger than %d bytes.", maxHeader)
	}
	return refusalOf(status, detail)
}

// refusalOf is an HTTP response with a problem document; nil if it cannot be encoded.
func refusalOf(status int, detail string) []byte {
	body, err := json.Marshal(problem.New(status, detail))
	if err != nil {
		return nil
	}
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n%s",
		status, http.StatusText(status), problem.MediaType, len(body), body)
}

// certificate is a certificate in two files. When a client connects, it reads them again if one
// has changed, so a renewal needs no signal to fedpost.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu   sync.Mutex
	seen [2]os.FileInfo // at the last attempt to read, successful or not
	gone bool           // a file was missing when a client last connected
	pair *tls.Certificate
}

// newCertificate reads the files for the first time.
func newCertificate(certFile, keyFile string, log *slog.Logger) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, log: log}
	seen, err := c.look()
	if err != nil {
		return nil, fmt.Errorf("TLS certificate: %w", err)
	}
	if err := c.read(seen); err != nil {
		return nil, err
	}
	return c, nil
}

// get implements tls.Config.GetCertificate. If the files cannot be read, or do not match because
// only one was replaced yet, the last good pair stays in use until they change again.
func (c *certificate) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen, err := c.look()
	if err != nil && c.gone || err == nil && !c.changed(seen) {
		return c.pair, nil
	}
	if c.gone = err != nil; err == nil {
		err = c.read(seen)
	}
	if err != nil {
		// Once for each change, not for each connection.
		c.log.ErrorContext(hello.Context(), "the changed TLS certificate cannot be used; the previous one stays in use", "error", err)
		return c.pair, nil
	}
	c.log.InfoContext(hello.Context(), "TLS certificate read again", "until", c.pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	return c.pair, nil
}

// look returns the state of the files. It follows links, as Certbot uses them.
func (c *certificate) look() (seen [2]os.FileInfo, err error) {
	for i, name := range []string{c.certFile, c.keyFile} {
		if seen[i], err = os.Stat(name); err != nil {
			return seen, err
		}
	}
	return seen, nil
}

func (c *certificate) changed(now [2]os.FileInfo) bool {
	for i, f := range now {
		old := c.seen[i]
		if !os.SameFile(f, old) || !f.ModTime().Equal(old.ModTime()) || f.Size() != old.Size() {
			return true
		}
	}
	return false
}

func (c *certificate) read(seen [2]os.FileInfo) error {
	c.seen = seen
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("TLS certificate %s with key %s: %w", c.certFile, c.keyFile, err)
	}
	c.pair = &pair
	return nil
}
