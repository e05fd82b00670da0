package local

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// pair makes a certificate for 127.0.0.1 and its key, PEM.
func pair(t *testing.T, serial int64) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

// replace replaces a file by renaming, as programs that renew certificates do.
func replace(t *testing.T, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// logged is a buffer for the lines of several goroutines.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) errors() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), "level=ERROR")
}

// TestACertificateIsReadAgainWhenItChanges, and the last good pair serves while the files
// are gone or do not belong together; that is said once, however many clients connect.
func TestACertificateIsReadAgainWhenItChanges(t *testing.T) {
	dir := t.TempDir()
	at := ListenConfig{Listen: "127.0.0.1:0", Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	cert, key := pair(t, 1)
	replace(t, at.Cert, cert)
	replace(t, at.Key, key)
	var log logged
	l, err := at.open(slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if !strings.HasPrefix(l.url, "https://127.0.0.1:") {
		t.Errorf("URL %q", l.url)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(io.Discard, c) // until the client goes
				_ = c.Close()
			}()
		}
	}()
	serves := func(when string, want int64, errors int) {
		t.Helper()
		for range 3 {
			c, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
			if err != nil {
				t.Fatalf("%s: %v", when, err)
			}
			state := c.ConnectionState()
			if got := state.PeerCertificates[0].SerialNumber.Int64(); got != want || state.NegotiatedProtocol != "http/1.1" {
				t.Errorf("%s: certificate %d and %q, want %d and HTTP/1.1", when, got, state.NegotiatedProtocol, want)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		if got := log.errors(); got != errors {
			t.Errorf("%s: %d errors are logged, want %d", when, got, errors)
		}
	}
	serves("at first", 1, 0)
	cert, key = pair(t, 2)
	replace(t, at.Cert, cert)
	serves("with half of the new pair", 1, 1)
	replace(t, at.Key, key)
	serves("with the new pair", 2, 1)
	replace(t, at.Cert, []byte("no certificate"))
	serves("with a broken file", 2, 2)
	if err := os.Remove(at.Key); err != nil {
		t.Fatal(err)
	}
	serves("without a key", 2, 3)
	cert, key = pair(t, 3)
	replace(t, at.Cert, cert)
	replace(t, at.Key, key)
	serves("after all", 3, 3)
}

func TestACertificateIsCheckedAtStart(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		replace(t, path, text)
		return path
	}
	cert, key := pair(t, 1)
	_, other := pair(t, 2)
	c, k := file("cert", cert), file("key", key)
	for about, p := range map[string]struct {
		at   ListenConfig
		says string
	}{
		"without a key":           {ListenConfig{Listen: "127.0.0.1:0", Cert: c}, "both files"},
		"without a certificate":   {ListenConfig{Listen: "127.0.0.1:0", Key: k}, "both files"},
		"a file that is missing":  {ListenConfig{Listen: "127.0.0.1:0", Cert: c, Key: k + "x"}, "no such file"},
		"the key of another":      {ListenConfig{Listen: "127.0.0.1:0", Cert: c, Key: file("other", other)}, "does not match"},
		"on a socket":             {ListenConfig{Listen: "unix:" + filepath.Join(dir, "s"), Cert: c, Key: k}, "no TLS"},
		"an address that is none": {ListenConfig{Listen: "nonsense", Cert: c, Key: k}, "listen on nonsense"},
	} {
		if _, err := p.at.open(slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), p.says) {
			t.Errorf("%s: %v, want %q", about, err, p.says)
		}
	}
	if _, err := teapot(t, ListenConfig{Listen: "0.0.0.0:0", Cert: c, Key: k}, ""); err == nil {
		t.Error("with TLS a network is served without a token")
	}
}

// TestAnAnsweredTLSConnectionIsTrusted: a connection whose request is being answered is not
// closed for another one, and one that is only kept open is.
func TestAnAnsweredTLSConnectionIsTrusted(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	cert, key := pair(t, 1)
	replace(t, certFile, cert)
	replace(t, keyFile, key)
	c, err := newCertificate(certFile, keyFile, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := newBoundedListener(l, 1)
	entered, leave := make(chan struct{}), make(chan struct{})
	s := httpServer(Options{Log: slog.New(slog.DiscardHandler), Services: Services{API: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-leave
	})}})
	go func() { _ = s.Serve(securing{d, c.serverTLS(), slog.New(slog.DiscardHandler)}) }() // until it is closed
	defer s.Close()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	ask := func() chan error {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
		t.Cleanup(tr.CloseIdleConnections)
		got := make(chan error, 1)
		go func() {
			resp, err := (&http.Client{Transport: tr}).Get("https://" + l.Addr().String())
			if err == nil {
				err = resp.Body.Close()
			}
			got <- err
		}()
		return got
	}
	first := ask()
	<-entered
	d.mu.Lock()
	for g := range d.open {
		if !g.trusted {
			t.Error("a connection that is being answered is not trusted")
		}
	}
	d.mu.Unlock()
	leave <- struct{}{}
	if err := <-first; err != nil {
		t.Error(err)
	}
	// The first connection is kept open by its client; the second one takes its place.
	second := ask()
	<-entered
	leave <- struct{}{}
	if err := <-second; err != nil {
		t.Error(err)
	}
}
