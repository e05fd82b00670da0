package outbound

import (
	"crypto/tls"
	"net"
	"runtime"
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
			d := &tlsDialer{timeout: time.Hour, turns: newTurns(2), config: &tls.Config{RootCAs: authorities, ClientSessionCache: s}}
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
				conn, err := d.handshake(b.Context(), raw, "a.hosts.test")
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

// thread is the processor time that this thread has used.
func thread(b *testing.B) time.Duration {
	const thisThread = 1 // RUSAGE_THREAD, man 2 getrusage
	var u syscall.Rusage
	if err := syscall.Getrusage(thisThread, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
