package outbound

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"fedpost/internal/activity/outcome"
)

// A host that hung and sent PING frames all the time was read and answered for the whole
// time of the request, as fast as this machine can: 8 such hosts took all of its processors.
func TestAHostThatFloodsAnHTTP2ConnectionIsHungUpOn(t *testing.T) {
	const most = 4 << 20 // of what is sent; buffers of sockets hold some of it
	flood := func(f *http2.Framer, sent *atomic.Int64) {
		read := make(chan struct{})
		go func() { // reads what is answered
			defer close(read)
			for {
				if _, err := f.ReadFrame(); err != nil {
					return
				}
			}
		}()
		for n := 0; n < most; n += 17 {
			if f.WritePing(false, [8]byte{}) != nil {
				<-read
				return
			}
			sent.Add(17)
		}
		runtime.Goexit() // the test has failed; this hangs up
	}
	t.Run("in place of an answer", func(t *testing.T) {
		var sent atomic.Int64
		url, client, _ := frames(t, func(f *http2.Framer, _ int, _ uint32) { flood(f, &sent) })
		client.config.Timeout = 20 * time.Second
		_, err := post(t, client, url)
		if ReasonOf(err) != outcome.InvalidAnswer || sent.Load() >= most {
			t.Errorf("%d bytes were taken; reason %q: %v", sent.Load(), ReasonOf(err), err)
		}
	})
	t.Run("after the answer", func(t *testing.T) {
		var sent atomic.Int64
		ended := make(chan struct{})
		url, client, _ := frames(t, func(f *http2.Framer, _ int, stream uint32) {
			defer close(ended)
			accepted(f, stream)
			flood(f, &sent)
		})
		if a, err := post(t, client, url); err != nil || a.Status != http.StatusAccepted {
			t.Errorf("status %d: %v", a.Status, err)
		}
		<-ended
		if sent.Load() >= most {
			t.Errorf("%d bytes were taken", sent.Load())
		}
	})
}

// What a host may send beyond what is read of its answer, this machine holds: it was 4 MiB,
// for each of hundreds of requests.
func TestAHostMaySendLittleMoreOfABodyThanIsRead(t *testing.T) {
	for _, most := range []int{0, 1 << 20} {
		c := trial(t, func(c *Config) { c.MaxBody = most })
		if w := c.transport.(*pool).transport.HTTP2.MaxReceiveBufferPerStream; w < c.config.MaxBody || w > 2*c.config.MaxBody {
			t.Errorf("a host may send %d bytes that nobody has read, of an answer of which %d are read", w, c.config.MaxBody)
		}
	}
}

// A session holds the certificates of its host, of which a host may send 256 KB. 2,048 hosts
// of one stranger, with useless certificates, made this machine hold gigabytes.
func TestSessionsOfHostsWithHugeCertificatesAreNotKept(t *testing.T) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	useless := func(names int) []byte {
		c := &x509.Certificate{
			SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "useless"},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		}
		for i := range names {
			c.DNSNames = append(c.DNSNames, fmt.Sprintf("a-rather-long-name-%d.hosts.test", i))
		}
		der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	for _, c := range []struct {
		more, names int
		resumed     int32
	}{{0, 0, 1}, {2, 1, 1}, {9, 1, 1}, {9, 700, 0}} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			var resumed atomic.Int32
			s, authorities := secure(t, accept, func(s *httptest.Server) {
				cert, _ := certificateFor(t, []string{"a.hosts.test"})
				for range c.more {
					cert.Certificate = append(cert.Certificate, useless(c.names))
				}
				s.TLS.Certificates, s.TLS.MaxVersion = []tls.Certificate{cert}, version
				s.TLS.VerifyConnection = func(state tls.ConnectionState) error {
					if state.DidResume {
						resumed.Add(1)
					}
					return nil
				}
			})
			client := trial(t, func(cfg *Config) {
				cfg.RootCAs, cfg.Resolver = authorities, directory(zone{"a.hosts.test": {"127.0.0.1"}})
			})
			for range 2 {
				if a, err := post(t, client, "https://a.hosts.test"+s.URL[strings.LastIndex(s.URL, ":"):]); err != nil || a.Status != http.StatusAccepted {
					t.Fatalf("status %d: %v", a.Status, err)
				}
				client.transport.(*pool).closeIdle()
			}
			if resumed.Load() != c.resumed {
				t.Errorf("%d more certificates of %d names, TLS %x: %d sessions resumed, want %d", c.more, c.names, version, resumed.Load(), c.resumed)
			}
		}
	}
}
