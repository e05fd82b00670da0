package outbound

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestNothingTouchesAConnectionThatHasJustAnswered holds a request at the moment when its answer
// has come and the caller does not have it yet, and does what used to close such a connection.
func TestNothingTouchesAConnectionThatHasJustAnswered(t *testing.T) {
	var taken atomic.Int64
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		taken.Add(1)
		w.WriteHeader(http.StatusAccepted)
	})
	for _, scheme := range []string{"http", "https"} {
		s := httptest.NewUnstartedServer(handler)
		change := func(*Config) {}
		if scheme == "https" {
			cert, authorities := certificate(t)
			s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
			s.StartTLS()
			change = func(c *Config) { c.RootCAs = authorities }
		} else {
			s.Start()
		}
		defer s.Close()
		names := zone{}
		for h := range 400 {
			names[fmt.Sprintf("h%d.hosts.test", h)] = []string{"127.0.0.1"}
		}
		now := time.Now()
		client := trial(t, func(c *Config) {
			c.Resolver, c.Timeout, c.Connect, c.TLS = directory(names), time.Minute, time.Minute, time.Minute
			c.Now = func() time.Time { return now }
			change(c)
		})
		var then atomic.Pointer[func()]
		p := client.transport.(*pool)
		p.plain, p.secure = heard(p.plain, &then), heard(p.secure, &then)
		port := portOf(t, s.URL)
		send := func(ctx context.Context, h int) error {
			r, err := NewRequest(ctx, http.MethodPost, fmt.Sprintf("%s://h%d.hosts.test:%s/inbox", scheme, h, port), "x")
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.Do(ctx, r)
			return err
		}
		for _, c := range []struct {
			name      string
			meanwhile func()
		}{
			{"300 other hosts answer", func() {
				var others sync.WaitGroup
				for w := range 10 {
					others.Go(func() {
						for h := range 30 {
							if err := send(t.Context(), 1+w*30+h); err != nil {
								t.Error(err)
							}
						}
					})
				}
				others.Wait()
			}},
			{"the process was frozen", func() {
				now = now.Add(2 * keepIdle)
				if err := send(t.Context(), 1); err != nil {
					t.Error(err)
				}
			}},
			{"another request to the host is given up", func() {
				ctx, cancel := context.WithCancel(t.Context())
				ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: cancel})
				_ = send(ctx, 0)
				cancel()
			}},
		} {
			t.Run(scheme+": "+c.name, func(t *testing.T) {
				then.Store(&c.meanwhile)
				if err := send(t.Context(), 0); err != nil {
					t.Errorf("the host took the activity, and then: reason %q, %v", ReasonOf(err), err)
				}
				if then.Load() != nil {
					t.Error("nothing happened in between")
				}
			})
		}
	}
}

// heard makes a dialer's connections call then, once, when an answer has come that nobody has seen
// yet.
func heard(dial dialer, then *atomic.Pointer[func()]) dialer {
	return func(ctx context.Context, address string) (dialled, error) {
		conn, err := dial(ctx, address)
		if err == nil {
			conn.Conn = hearing{conn.Conn, then}
		}
		return conn, err
	}
}

type hearing struct {
	net.Conn
	then *atomic.Pointer[func()]
}

func (h hearing) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	if n > 0 {
		if then := h.then.Swap(nil); then != nil {
			(*then)()
		}
	}
	return n, err
}
