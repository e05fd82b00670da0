package outbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fedpost/internal/activity/outcome"
)

// secure starts an HTTPS server and returns it with the CAs that trust it.
func secure(t *testing.T, h http.HandlerFunc, change func(*httptest.Server)) (*httptest.Server, *x509.CertPool) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = new(tls.Config)
	if change != nil {
		change(s)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return s, pool
}

func accept(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusAccepted) }

// hello reads the client's first message as a whole: closing with some of it
// unread would be a reset.
func hello(c net.Conn) {
	header := make([]byte, 5)
	if _, err := io.ReadFull(c, header); err == nil {
		_, _ = io.CopyN(io.Discard, c, int64(header[3])<<8|int64(header[4]))
	}
}

func TestTLSFaults(t *testing.T) {
	good, pool := secure(t, accept, nil)
	old, _ := secure(t, accept, func(s *httptest.Server) { s.TLS.MaxVersion = tls.VersionTLS11; s.EnableHTTP2 = false })
	wantsCert := func(version uint16) string {
		s, _ := secure(t, accept, func(s *httptest.Server) {
			// Over HTTP/2 the alert may come too late to be seen.
			s.EnableHTTP2 = false
			s.TLS.ClientAuth, s.TLS.MinVersion, s.TLS.MaxVersion = tls.RequireAnyClientCert, version, version
		})
		return s.URL
	}
	plain := httptest.NewServer(http.HandlerFunc(accept))
	defer plain.Close()
	port := good.URL[strings.LastIndex(good.URL, ":"):]

	for _, c := range []struct {
		name, url string
		change    func(*Config)
		want      outcome.Reason
	}{
		{"trusted", good.URL, nil, outcome.ReasonNone},
		{"unknown authority", good.URL, func(c *Config) { c.RootCAs = x509.NewCertPool() }, outcome.TLS},
		{"certificate for another name", "https://other.test" + port, nil, outcome.TLS},
		{"only old versions", old.URL, nil, outcome.TLS},
		{"wants a certificate of us, TLS 1.2", wantsCert(tls.VersionTLS12), nil, outcome.TLS},
		{"wants a certificate of us, TLS 1.3", wantsCert(tls.VersionTLS13), nil, outcome.TLS},
		{"speaks no TLS", strings.Replace(plain.URL, "http:", "https:", 1), nil, outcome.TLS},
		{"speaks garbage", "https://" + listen(t, func(c net.Conn) { _, _ = c.Write([]byte(strings.Repeat("\x16\x03garbage", 9))) }), nil, outcome.TLS},
		{"hangs up in the handshake", "https://" + listen(t, hello), nil, outcome.TLS},
		{"resets in the handshake", "https://" + listen(t, func(c net.Conn) {
			_, _ = c.Read(make([]byte, 5))
			_ = c.(*net.TCPConn).SetLinger(0)
		}), nil, outcome.ConnReset},
		{
			"hangs in the handshake", "https://" + listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }),
			func(c *Config) { c.TLS = 50 * time.Millisecond }, outcome.Timeout,
		},
		{
			"hangs in the handshake for the whole time", "https://" + listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }),
			func(c *Config) { c.Timeout = 50 * time.Millisecond }, outcome.Timeout,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := trial(t, func(cfg *Config) {
				cfg.RootCAs, cfg.Resolver = pool, resolver(t, zone{"other.test": {"127.0.0.1"}})
				if c.change != nil {
					c.change(cfg)
				}
			})
			a, err := post(t, client, c.url)
			if got := ReasonOf(err); got != c.want {
				t.Errorf("reason %q, want %q: %v, status %d", got, c.want, err, a.Status)
			}
		})
	}
}

func TestHTTP2(t *testing.T) {
	var step atomic.Value
	s, pool := secure(t, func(w http.ResponseWriter, r *http.Request) { step.Load().(http.HandlerFunc)(w, r) }, nil)
	client := trial(t, func(c *Config) { c.RootCAs = pool; c.Body = 100 * time.Millisecond })
	timeUp := make(chan struct{}, 1)
	for _, c := range []struct {
		name   string
		step   http.HandlerFunc
		want   outcome.Reason
		status int
	}{
		{"accepts", accept, outcome.ReasonNone, 202},
		{"resets the stream", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, outcome.ConnReset, 0},
		{"hangs", func(_ http.ResponseWriter, r *http.Request) { timeUp <- struct{}{}; <-r.Context().Done() }, outcome.Timeout, 0},
		{"has a header of 1 MB", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Y", strings.Repeat("z", 1<<20))
		}, outcome.InvalidAnswer, 0},
		{"has a body without end", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<14)); err != nil {
					return
				}
			}
		}, outcome.ReasonNone, 200},
		{"still accepts", accept, outcome.ReasonNone, 202},
	} {
		t.Run(c.name, func(t *testing.T) {
			step.Store(c.step)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			go func() {
				select {
				case <-timeUp:
					cancel(ErrTimeout)
				case <-ctx.Done():
				}
			}()
			r, err := NewRequest(ctx, http.MethodPost, s.URL, "x")
			if err != nil {
				t.Fatal(err)
			}
			a, err := client.Do(ctx, r)
			if got := ReasonOf(err); got != c.want || a.Status != c.status || (err == nil && a.Proto != "HTTP/2.0") {
				t.Errorf("reason %q, want %q: %v, %s status %d", got, c.want, err, a.Proto, a.Status)
			}
		})
	}
}
