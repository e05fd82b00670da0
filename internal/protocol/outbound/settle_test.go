package outbound

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"
)

// TestFramesThatAreNotReadYetDoNotEndAConnection: an HTTP/2 server sends frames when it likes,
// and the goroutine that reads them may have no processor yet.
func TestFramesThatAreNotReadYetDoNotEndAConnection(t *testing.T) {
	var connections atomic.Int32
	s, authorities := secure(t, accept, func(s *httptest.Server) {
		s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				connections.Add(1)
			}
		}
	})
	for _, c := range []struct {
		name           string
		read           bool // what has arrived, at last
		connections    int32
		fewest, pauses int
	}{
		{"read late", true, 1, 2, 10},
		{"never read", false, 2, settleMost, settleMost},
	} {
		t.Run(c.name, func(t *testing.T) {
			connections.Store(0)
			client := trial(t, func(c *Config) { c.RootCAs = authorities })
			p := client.transport.(*pool)
			if _, err := post(t, client, s.URL); err != nil {
				t.Fatal(err)
			}
			raw := arrived(t)
			pauses := 0
			p.pause = func() {
				if pauses++; c.read && pauses == 3 {
					if _, err := io.ReadFull(raw, make([]byte, 1)); err != nil {
						t.Error(err)
					}
				}
			}
			p.idle.Front().Value.(*kept).raw = raw
			if _, err := post(t, client, s.URL); err != nil {
				t.Error(err)
			}
			if n := connections.Load(); n != c.connections || pauses < c.fewest || pauses > c.pauses {
				t.Errorf("%d connections, want %d, after %d looks, want %d to %d", n, c.connections, pauses, c.fewest, c.pauses)
			}
			p.closeIdle()
		})
	}
}

// arrived returns a connection on which a byte has arrived.
func arrived(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", listen(t, func(conn net.Conn) {
		_, _ = conn.Write([]byte("x"))
		_, _ = io.Copy(io.Discard, conn) // until the test is over
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	for !hungUp(conn) {
		runtime.Gosched()
	}
	return conn
}
