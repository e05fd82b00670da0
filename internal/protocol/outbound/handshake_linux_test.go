package outbound

import (
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// BenchmarkHandshake measures what a TLS 1.3 handshake takes of our processors, the host's
// side not counted. The usual key exchange is X25519 with ML-KEM-768.
func BenchmarkHandshake(b *testing.B) {
	for _, c := range []struct {
		name    string
		resume  bool
		classic bool // without ML-KEM
	}{{"full", false, false}, {"resumed", true, false}, {"full, X25519", false, true}, {"resumed, X25519", true, true}} {
		b.Run(c.name, func(b *testing.B) {
			cert, authorities := certificate(b)
			l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					go func() {
						defer conn.Close()
						_, _ = conn.Write([]byte("x")) // after the ticket
						_, _ = conn.Read(make([]byte, 1))
					}()
				}
			}()
			s := sessions{tls.NewLRUClientSessionCache(mostSessions)}
			d := newDialer(Config{RootCAs: authorities}, time.Hour, newSemaphore(2), s)
			if c.classic {
				d.config.CurvePreferences = []tls.CurveID{tls.X25519}
			}
			var used time.Duration
			once := func() {
				raw, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					b.Fatal(err)
				}
				defer raw.Close()
				before := thread(b)
				conn, err := d.handshake(b.Context(), raw, "a.hosts.test:443")
				if err != nil {
					b.Fatal(err)
				}
				if _, err := conn.Read(make([]byte, 1)); err != nil {
					b.Fatal(err)
				}
				used += thread(b) - before
				if !c.resume {
					s.Put("a.hosts.test", nil)
				}
			}
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			once()
			used = 0
			for b.Loop() {
				once()
			}
			b.ReportMetric(float64(used.Microseconds())/float64(b.N), "processor-µs/op")
		})
	}
}

// BenchmarkCostlyChain measures what a handshake takes of our processors with a host whose
// certificates are made to cost much.
func BenchmarkCostlyChain(b *testing.B) {
	p384 := issuer{}.authority(b, "authority root", newKey(b, elliptic.P384()), nil)
	key := newKey(b, elliptic.P521())
	roots := x509.NewCertPool()
	for name := range strings.SplitSeq("tangle,root,authority a,authority b,authority c", ",") {
		// A root of the same name is checked, too.
		roots.AddCert(issuer{}.authority(b, name, p384.key, nil).cert)
	}
	untrusted := issuer{}.authority(b, "root", key, nil)
	for _, c := range []struct {
		name string
		cert tls.Certificate
	}{
		{"98 of P-521", tangle(b, 98, elliptic.P521())},
		{"9 of P-521", tangle(b, 9, elliptic.P521())},
		{"420 of P-521, 256 KiB", tangle(b, 420, elliptic.P521())},
		{"the costliest that is checked", below(b, untrusted, 3, elliptic.P521())},
	} {
		b.Run(c.name, func(b *testing.B) {
			l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
				Certificates: []tls.Certificate{c.cert}, CurvePreferences: []tls.CurveID{tls.CurveP521},
			})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					go func() {
						defer conn.Close()
						_ = conn.(*tls.Conn).Handshake()
					}()
				}
			}()
			d := newDialer(Config{RootCAs: roots}, time.Hour, newSemaphore(2), sessions{tls.NewLRUClientSessionCache(1)})
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			before := thread(b)
			for b.Loop() {
				raw, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					b.Fatal(err)
				}
				if _, err = d.handshake(b.Context(), raw, "a.hosts.test:443"); err == nil {
					b.Fatal("the chain was accepted")
				}
				raw.Close()
			}
			b.ReportMetric(float64((thread(b)-before).Microseconds())/float64(b.N), "processor-µs/op")
		})
	}
}

// thread is the processor time that this thread has used.
func thread(b *testing.B) time.Duration {
	const thisThread = 1 // RUSAGE_THREAD, man 2 getrusage
	var u syscall.Rusage
	if err := syscall.Getrusage(thisThread, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
