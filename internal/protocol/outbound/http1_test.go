package outbound

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestAnUnusedConnectionHasNoGoroutine: at 50,000 recipients, two goroutines for each
// connection took a third of the memory.
func TestAnUnusedConnectionHasNoGoroutine(t *testing.T) {
	const hosts = 50
	synctest.Test(t, func(t *testing.T) {
		client := trial(t, func(c *Config) { c.Idle = hosts })
		var connections atomic.Int32
		pipe(client, accepting(&connections))
		before := runtime.NumGoroutine()
		for h := range hosts {
			if a, err := post(t, client, fmt.Sprintf("http://h%d.hosts.test/inbox", h)); err != nil || a.Status != http.StatusAccepted {
				t.Fatalf("%+v %v", a, err)
			}
		}
		synctest.Wait()
		// The host's end of each connection has one.
		if n := runtime.NumGoroutine() - before; int(connections.Load()) != hosts || n > hosts+hosts/2 {
			t.Errorf("%d connections, %d goroutines more than before", connections.Load(), n)
		}
		client.transport.(*pool).closeIdle()
	})
}

// TestAnAnswerCountsBeforeTheRequestIsRead: a host may refuse a long activity by its header,
// and read nothing of its body, without end.
func TestAnAnswerCountsBeforeTheRequestIsRead(t *testing.T) {
	for _, size := range []int{sentWhole + 1, 256 << 10} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := trial(t, func(c *Config) { c.Timeout = time.Second })
				done := make(chan struct{})
				pipe(client, func(conn net.Conn) {
					_, _ = io.ReadFull(conn, make([]byte, 100))
					_, _ = conn.Write([]byte("HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig"))
					<-done
				})
				r, err := NewRequest(t.Context(), http.MethodPost, "http://a.hosts.test/inbox", strings.Repeat("x", size))
				if err != nil {
					t.Fatal(err)
				}
				a, err := client.Do(t.Context(), r)
				if err != nil || a.Status != http.StatusRequestEntityTooLarge || string(a.Body) != "big" || a.BodyErr != nil {
					t.Errorf("%+v %v", a, err)
				}
				if n := client.transport.(*pool).idle.Len(); n != 0 {
					t.Errorf("%d connections are kept of which a request is not written", n)
				}
				close(done)
			})
		})
	}
}

// TestAConnectionTakesLongRequests: one after the other, and each is read whole.
func TestAConnectionTakesLongRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := trial(t, nil)
		var connections atomic.Int32
		pipe(client, accepting(&connections))
		for _, size := range []int{0, 1, sentWhole, sentWhole + 1, 1 << 20, 10} {
			r, err := NewRequest(t.Context(), http.MethodPost, "http://a.hosts.test/inbox", strings.Repeat("x", size))
			if err != nil {
				t.Fatal(err)
			}
			if a, err := client.Do(t.Context(), r); err != nil || a.Status != http.StatusAccepted {
				t.Fatalf("%d bytes: %+v %v", size, a, err)
			}
		}
		if n := connections.Load(); n != 1 {
			t.Errorf("%d connections", n)
		}
		client.transport.(*pool).closeIdle()
	})
}

// TestACloseNotifyThatCameWithTheAnswerIsNoticed: crypto/tls has read it, so the socket
// does not show it, and the next request would be lost.
func TestACloseNotifyThatCameWithTheAnswerIsNoticed(t *testing.T) {
	cert, authorities := certificate(t)
	var connections, requests atomic.Int32
	address := listen(t, func(raw net.Conn) {
		connections.Add(1)
		together := &gathering{Conn: raw}
		conn := tls.Server(together, &tls.Config{Certificates: []tls.Certificate{cert}})
		for range 2 {
			if _, err := conn.Read(make([]byte, 4<<10)); err != nil {
				return
			}
			if requests.Add(1) > 1 && connections.Load() == 1 {
				_, _ = io.Copy(io.Discard, raw) // a lost request
				return
			}
			together.hold = true
			_, _ = conn.Write([]byte("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"))
			_ = conn.CloseWrite()
			together.flush()
		}
		_, _ = io.Copy(io.Discard, raw)
	})
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	client := trial(t, func(c *Config) {
		c.RootCAs, c.Resolver, c.Timeout = authorities, directory(zone{"a.hosts.test": {"127.0.0.1"}}), time.Minute
	})
	for range 2 {
		if a, err := post(t, client, "https://a.hosts.test:"+port+"/inbox"); err != nil || a.Status != http.StatusAccepted {
			t.Fatalf("%+v %v", a, err)
		}
	}
	if c, r := connections.Load(), requests.Load(); c != 2 || r != 2 {
		t.Errorf("%d requests on %d connections", r, c)
	}
}

// gathering is a connection that writes in one piece what is written while hold is set.
type gathering struct {
	net.Conn
	hold bool
	held bytes.Buffer
}

func (g *gathering) Write(p []byte) (int, error) {
	if g.hold {
		return g.held.Write(p)
	}
	return g.Conn.Write(p)
}

func (g *gathering) flush() {
	g.hold = false
	_, _ = g.Conn.Write(g.held.Bytes())
	g.held.Reset()
}

// SetWriteDeadline does nothing: CloseWrite sets one that is over.
func (g *gathering) SetWriteDeadline(time.Time) error { return nil }

// TestNothingReadsARequestAfterItsAnswer: the caller may change a request when it has the
// answer, such as to sign it in another way.
func TestNothingReadsARequestAfterItsAnswer(t *testing.T) {
	for _, header := range []string{"", "Connection: close\r\n"} {
		synctest.Test(t, func(t *testing.T) {
			client := trial(t, nil)
			done := make(chan struct{})
			pipe(client, func(conn net.Conn) {
				_, _ = conn.Read(make([]byte, 4<<10))
				_, _ = conn.Write([]byte("HTTP/1.1 401 Unauthorized\r\n" + header + "Content-Length: 0\r\n\r\n"))
				<-done
			})
			r, err := NewRequest(t.Context(), http.MethodPost, "http://a.hosts.test/inbox", strings.Repeat("x", sentWhole+1))
			if err != nil {
				t.Fatal(err)
			}
			var reading atomic.Bool
			body := r.Body
			r.GetBody, r.Body = nil, io.NopCloser(readerFunc(func(p []byte) (int, error) {
				reading.Store(true)
				defer reading.Store(false)
				time.Sleep(time.Second) // no processor was free
				return body.Read(p)
			}))
			if a, err := client.Do(t.Context(), r); err != nil || a.Status != http.StatusUnauthorized {
				t.Errorf("%+v %v", a, err)
			}
			if reading.Load() {
				t.Error("the request is still read")
			}
			close(done)
		})
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
