package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fedpost/internal/app/local"
)

// certificateOf writes a certificate for a name that nobody dials, and its key.
func certificateOf(t *testing.T, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// TestHealthFollowsTheSettingsOfUp: over TLS with its own certificate, and on a socket.
func TestHealthFollowsTheSettingsOfUp(t *testing.T) {
	operator(t)
	cert, key := certificateOf(t, "fedpost.social.example")
	other, _ := certificateOf(t, "fedpost.social.example")
	folder, err := os.MkdirTemp("", "fp") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	for name, at := range map[string]local.ListenConfig{
		"TLS": {Listen: "127.0.0.1:0", Cert: cert, Key: key}, "socket": {Listen: "unix:" + filepath.Join(folder, "s")}, "plain": {Listen: "127.0.0.1:0"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := start(t.Context(), t.TempDir(), at, true, nil, quiet)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := f.stop(nil, 10*time.Second); err != nil {
					t.Error(err)
				}
			}()
			_, listen, tcp := strings.Cut(f.server.URL, "://")
			if !tcp {
				listen = f.server.URL
			}
			t.Setenv("FEDPOST_LISTEN", listen)
			t.Setenv("FEDPOST_TLS_CERT", at.Cert)
			if out, err := alone(t, "health"); err != nil || out != "ok\n" {
				t.Errorf("health prints %q, error %v; want ok", out, err)
			}
			if at.Cert == "" {
				return
			}
			t.Setenv("FEDPOST_TLS_CERT", other)
			if _, err := alone(t, "health"); err == nil || !strings.Contains(err.Error(), "another certificate") {
				t.Errorf("another certificate: %v", err)
			}
		})
	}
	t.Setenv("FEDPOST_TLS_CERT", key)
	if _, err := alone(t, "health"); err == nil || !strings.Contains(err.Error(), "has none in PEM") {
		t.Errorf("no certificate: %v", err)
	}
}

// TestAnEmptyVariableOfTLSIsNone: kong makes the working directory of an empty path.
func TestAnEmptyVariableOfTLSIsNone(t *testing.T) {
	t.Setenv("FEDPOST_TLS_CERT", "")
	t.Setenv("FEDPOST_TLS_KEY", "")
	for _, args := range [][]string{{"up"}, {"health"}} {
		var c commands
		p, err := parser(&c, screen{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Parse(args); err != nil || c.Up.TLSCert != "" || c.Up.TLSKey != "" || c.Health.TLSCert != "" {
			t.Errorf("%q: %v, %q %q %q", args, err, c.Up.TLSCert, c.Up.TLSKey, c.Health.TLSCert)
		}
	}
}

func TestWhatListensEverywhereIsAskedHere(t *testing.T) {
	for listen, want := range map[string]string{
		"0.0.0.0:8443": "https://127.0.0.1:8443", ":8443": "https://127.0.0.1:8443", "[::]:8443": "https://[::1]:8443",
		"10.0.0.1:1": "https://10.0.0.1:1", "localhost:1": "https://localhost:1", "unix:/run/s": "unix:/run/s", "nonsense": "https://nonsense",
	} {
		if got := urlOf(listen, true); got != want {
			t.Errorf("%s: %s, want %s", listen, got, want)
		}
	}
	if got := urlOf("0.0.0.0:80", false); got != "http://127.0.0.1:80" {
		t.Errorf("the URL is %q, want http://127.0.0.1:80", got)
	}
}
