package outbound

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fedpost/internal/testkit/long"
)

// certificate returns a certificate for names below hosts.test, and the
// authority to trust.
func certificate(t testing.TB) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	return certificateFor(t, []string{"*.hosts.test"})
}

func certificateFor(t testing.TB, names []string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: names, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(c)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: c}, pool
}

// TestHealthyHostsGetEachActivityOnce sends activities to each of 1,000 healthy hosts: 20, and 5
// where each begins with a handshake (300 hosts and 3 activities by default). A POST that a host took and that still ends in an error would be sent
// to that host again, and held against it.
func TestHealthyHostsGetEachActivityOnce(t *testing.T) {
	cert, authorities := certificate(t)
	for scheme, activities := range map[string]int{"http": 20, "https": 5} {
		t.Run(scheme, func(t *testing.T) {
			hosts, activities := long.Pick(300, 1000), long.Pick(3, activities)
			names := make(zone)
			for h := range hosts {
				names[fmt.Sprintf("h%d.hosts.test", h)] = []string{"127.0.0.1"}
			}
			var taken atomic.Int64
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			_, port, err := net.SplitHostPort(l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			// An answer without a body, as inboxes give it: net/http has finished
			// with its connection before the caller has the answer.
			s := &http.Server{ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				taken.Add(1)
				w.WriteHeader(http.StatusAccepted)
			})}
			if scheme == "https" {
				l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}})
			}
			go func() { _ = s.Serve(l) }()
			defer s.Close()
			client := trial(t, func(c *Config) {
				c.Resolver, c.RootCAs, c.Timeout = directory(names), authorities, time.Minute
				c.Connect, c.TLS = time.Minute, time.Minute // a busy machine is not what is tested
			})

			var delivered, lost atomic.Int64
			var first sync.Once
			var workers sync.WaitGroup
			next := atomic.Int64{}
			for range 300 {
				workers.Go(func() {
					for n := next.Add(1) - 1; n < int64(hosts*activities); n = next.Add(1) - 1 {
						busy(20 * time.Microsecond)
						// In an order that spreads the requests to a host.
						_, err := post(t, client, fmt.Sprintf("%s://h%d.hosts.test:%s/inbox", scheme, n*7919%int64(hosts), port))
						if err != nil {
							lost.Add(1)
							first.Do(func() { t.Logf("reason %q: %v", ReasonOf(err), err) })
							continue
						}
						delivered.Add(1)
					}
				})
			}
			workers.Wait()
			if int(delivered.Load()) != hosts*activities || taken.Load() != delivered.Load() || lost.Load() != 0 {
				t.Errorf("of %d activities %d were taken, %d delivered and %d ended in an error",
					hosts*activities, taken.Load(), delivered.Load(), lost.Load())
			}
		})
	}
}

// busy keeps a processor occupied, as signing does: goroutines then wait for
// one at any point.
func busy(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		runtime.KeepAlive(d)
	}
}
