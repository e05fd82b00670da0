package fediverse

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// Hosts are servers on loopback that speak TLS.
type Hosts struct {
	// Root is the certificate that their chains end in, in DER.
	Root []byte
	// URLs are theirs, such as https://127.91.0.1:4711.
	URLs []string

	received atomic.Int64
}

// Received returns how many bytes the hosts have received, TLS included, TCP and IP not.
func (h *Hosts) Received() int64 { return h.received.Load() }

// counted is a listener whose connections count what they receive.
type counted struct {
	net.Listener
	bytes *atomic.Int64
}

func (l counted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return countedConn{c, l.bytes}, err
}

type countedConn struct {
	net.Conn
	bytes *atomic.Int64
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

// Encrypted starts hosts, each with an address of its own in 127.91.0.0/16 and a chain
// like those of Let's Encrypt: a leaf of RSA 2048, an intermediate of RSA 2048 and a root
// of RSA 4096. The hosts stop at the test's end.
func Encrypted(t testing.TB, hosts int, h http.Handler) *Hosts {
	t.Helper()
	all := &Hosts{}
	issue := func(serial int64, name string, ip net.IP, key, by *rsa.PrivateKey, parent *x509.Certificate) *x509.Certificate {
		c := &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, BasicConstraintsValid: true, IsCA: ip == nil,
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		}
		if ip != nil {
			c.IPAddresses = []net.IP{ip}
		}
		if parent == nil {
			parent = c
		}
		der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), by)
		if err != nil {
			t.Fatal(err)
		}
		if c, err = x509.ParseCertificate(der); err != nil {
			t.Fatal(err)
		}
		return c
	}
	var keys []*rsa.PrivateKey
	for _, bits := range []int{4096, 2048, 2048} {
		key, err := rsa.GenerateKey(rand.Reader, bits)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	top := issue(1, "root", nil, keys[0], keys[0], nil)
	intermediate := issue(2, "intermediate", nil, keys[1], keys[0], top)
	for i := range hosts {
		ip := net.IPv4(127, 91, byte(i/250), byte(i%250+1))
		l, err := net.Listen("tcp", ip.String()+":0")
		if err != nil {
			t.Fatal(err)
		}
		leaf := issue(int64(i+3), "leaf", ip, keys[2], keys[1], intermediate)
		s := &http.Server{
			ErrorLog:  log.New(io.Discard, "", 0),
			TLSConfig: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.Raw, intermediate.Raw}, PrivateKey: keys[2]}}},
			Handler:   h,
		}
		go func() { _ = s.ServeTLS(counted{l, &all.received}, "", "") }()
		t.Cleanup(func() { _ = s.Close() })
		all.URLs = append(all.URLs, "https://"+l.Addr().String())
	}
	all.Root = top.Raw
	return all
}

// Accept answers 202 to everything.
var Accept = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.WriteHeader(http.StatusAccepted)
})
