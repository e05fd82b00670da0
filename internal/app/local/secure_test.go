package local

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"fedpost/client"
	"fedpost/internal/api/problem"
)

// overTLS is a server with a certificate, its address, the TLS settings that trust it, and its log
// from WARN on.
func overTLS(t *testing.T) (address string, trust *tls.Config, log *logged) {
	t.Helper()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	cert, key := pair(t, 1)
	replace(t, certFile, cert)
	replace(t, keyFile, key)
	log = &logged{}
	lines := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	listener, err := ListenConfig{Listen: "127.0.0.1:0", Cert: certFile, Key: keyFile}.open(lines)
	if err != nil {
		t.Fatal(err)
	}
	s := httpServer(Options{Log: lines, Services: Services{API: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || !r.TLS.HandshakeComplete {
			t.Error("the handler does not know of TLS")
		}
		w.WriteHeader(http.StatusTeapot)
	})}})
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.Serve(listener) }() // until it is closed
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		<-ended
	})
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	_, address, _ = strings.Cut(listener.url, "://")
	return address, &tls.Config{RootCAs: pool}, log
}

// answered sends text and reads the answer.
func answered(t *testing.T, conn net.Conn, text string) (status int, kind string, p client.Problem) {
	t.Helper()
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%.40q: %v", text, err)
	}
	defer res.Body.Close()
	if res.Header.Get("Content-Type") == problem.MediaType {
		if err := json.NewDecoder(res.Body).Decode(&p); err != nil {
			t.Error(err)
		}
	}
	return res.StatusCode, res.Header.Get("Content-Type"), p
}

// TestRefusalsOverTLSAreProblems, also that of plain HTTP to the port of HTTPS. net/http
// answers both with plain text.
func TestRefusalsOverTLSAreProblems(t *testing.T) {
	address, trust, _ := overTLS(t)
	secure := func() net.Conn {
		t.Helper()
		c, err := tls.Dial("tcp", address, trust)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if status, _, _ := answered(t, secure(), "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); status != http.StatusTeapot {
		t.Errorf("a handler is not asked: %d", status)
	}
	if status, kind, p := answered(t, secure(), "GET /%zz HTTP/1.1\r\nHost: localhost\r\n\r\n"); status != 400 || kind != problem.MediaType || !strings.Contains(p.Detail, "hexadecimal") {
		t.Errorf("a bad path is answered %d %s %+v, want a problem of status 400 that names hexadecimal digits", status, kind, p)
	}
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		status, kind, p := answered(t, c, method+" / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if status != 400 || kind != problem.MediaType || !strings.Contains(p.Detail, "https://") {
			t.Errorf("plain %s: %d %s %+v", method, status, kind, p)
		}
	}
}

// TestStrangersThatFailTheHandshakeDoNotFillTheLog.
func TestStrangersThatFailTheHandshakeDoNotFillTheLog(t *testing.T) {
	address, _, log := overTLS(t)
	for _, text := range []string{"noise noise noise\r\n\r\n", "\x16\x03\x01\x00\x05hello", "GET / HTTP/1.1\r\n\r\n", ""} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, text); err != nil {
			t.Error(err)
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Error(err)
		}
		// The server has logged what it will before it closes.
		if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := tls.Dial("tcp", address, &tls.Config{}); err == nil { // which trusts nobody
		t.Error("a client trusts a stranger")
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	if log.text.Len() > 0 {
		t.Errorf("logged:\n%s", log.text.String())
	}
}
