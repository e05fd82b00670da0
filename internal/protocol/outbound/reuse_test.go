package outbound

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity/outcome"
)

func TestConnectionsAndSessionsAreReused(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		var connections, resumed atomic.Int32
		s, authorities := secure(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write(make([]byte, 1000))
		}, func(s *httptest.Server) {
			s.EnableHTTP2 = http2
			s.TLS.VerifyConnection = func(state tls.ConnectionState) error {
				if state.DidResume {
					resumed.Add(1)
				}
				return nil
			}
			s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					connections.Add(1)
				}
			}
		})
		client := trial(t, func(c *Config) { c.RootCAs = authorities })
		for range 10 {
			if _, err := post(t, client, s.URL); err != nil {
				t.Fatal(err)
			}
		}
		// One connection takes all. net/http does not keep an HTTP/1 connection whose writer
		// had no processor for 50 ms, which happens once in hundreds of requests on a busy
		// machine.
		n, most := connections.Load(), int32(1)
		if !http2 {
			most = 3
		}
		if n > most {
			t.Errorf("HTTP/2 %v: %d connections for 10 requests", http2, n)
		}
		client.transport.(*pool).closeIdle()
		if _, err := post(t, client, s.URL); err != nil {
			t.Fatal(err)
		}
		if connections.Load() != n+1 || resumed.Load() != n {
			t.Errorf("HTTP/2 %v: %d connections, %d with a resumed session", http2, connections.Load(), resumed.Load())
		}
	}
}

// TestFrozenConnectionsAreNotUsed: after a Lambda was frozen for a while, its
// kept connections are dead, but their timers have not run.
func TestFrozenConnectionsAreNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var connections atomic.Int32
		now := time.Now()
		client := trial(t, func(c *Config) { c.Now = func() time.Time { return now } })
		pipe(client, accepting(&connections))
		for _, c := range []struct {
			pause time.Duration
			want  int32
		}{{0, 1}, {keepIdle, 1}, {time.Second, 1}, {keepIdle + time.Second, 2}, {12 * time.Hour, 3}} {
			now = now.Add(c.pause)
			if _, err := post(t, client, "http://a.hosts.test/inbox"); err != nil {
				t.Fatal(err)
			}
			if n := connections.Load(); n != c.want {
				t.Errorf("%d connections after a pause of %v, want %d", n, c.pause, c.want)
			}
		}
		client.transport.(*pool).closeIdle()
	})
}

// TestNothingIsSentTwice: a host that takes a request on a kept connection and
// then hangs up may have acted on it.
func TestNothingIsSentTwice(t *testing.T) {
	var requests atomic.Int32
	url := "http://" + listen(t, func(conn net.Conn) {
		in := bufio.NewReader(conn)
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
			if requests.Add(1) == 2 {
				return
			}
			_, _ = conn.Write([]byte("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"))
		}
	})
	client := trial(t, nil)
	if _, err := post(t, client, url); err != nil {
		t.Fatal(err)
	}
	if _, err := post(t, client, url); ReasonOf(err) != outcome.ConnReset {
		t.Errorf("error %v, want a reset connection", err)
	}
	if n := requests.Load(); n != 2 {
		t.Errorf("%d requests for 2", n)
	}
}

func TestEnvironmentHasNoSay(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, "http://"+listen(t, say("HTTP/1.1 500 Proxy\r\nContent-Length: 0\r\n\r\n")))
	}
	s := httptest.NewServer(http.HandlerFunc(accept))
	defer s.Close()
	// net/http never asks a proxy for loopback, so a name that is not.
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client := trial(t, func(c *Config) { c.Resolver = resolver(t, zone{"a.test": {"127.0.0.1"}}) })
	if a, err := post(t, client, "http://a.test:"+port); err != nil || a.Status != http.StatusAccepted {
		t.Errorf("%d %v", a.Status, err)
	}
}

func TestRedirectsAndCookiesAreNotFollowed(t *testing.T) {
	var requests atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if len(r.Cookies()) > 0 {
			t.Error("a cookie was sent")
		}
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	defer s.Close()
	client := trial(t, nil)
	for n := range int32(2) {
		a, err := post(t, client, s.URL)
		if err != nil || a.Status != 307 || a.Header.Get("Location") != "/elsewhere" || requests.Load() != n+1 {
			t.Errorf("%d %v, %d requests", a.Status, err, requests.Load())
		}
	}
}
