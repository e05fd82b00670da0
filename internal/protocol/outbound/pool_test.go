package outbound

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"fedpost/internal/activity/outcome"
)

// TestKeptConnectionsAreBounded: at most maxIdlePerHost to a host, at most defaultIdle in all,
// none for longer than keepIdle.
func TestKeptConnectionsAreBounded(t *testing.T) {
	hold := make(chan struct{})
	var waiting sync.WaitGroup
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			waiting.Done()
			<-hold
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	defer s.Close()
	names := zone{}
	for h := range defaultIdle + 20 {
		names[fmt.Sprintf("h%d.test", h)] = []string{"127.0.0.1"}
	}
	now := time.Now()
	client := trial(t, func(c *Config) {
		c.Resolver, c.Now, c.Timeout = directory(names), func() time.Time { return now }, time.Minute
	})
	p := client.transport.(*pool)

	var all sync.WaitGroup
	waiting.Add(5)
	for range 5 {
		all.Go(func() {
			if _, err := post(t, client, s.URL+"/hold"); err != nil {
				t.Error(err)
			}
		})
	}
	waiting.Wait()
	close(hold)
	all.Wait()
	if n := p.idle.Len(); n != maxIdlePerHost {
		t.Errorf("%d connections to a host are kept, want %d", n, maxIdlePerHost)
	}
	for h := range defaultIdle + 20 {
		if _, err := post(t, client, fmt.Sprintf("http://h%d.test:%s/", h, portOf(t, s.URL))); err != nil {
			t.Fatal(err)
		}
	}
	if n := p.idle.Len(); n != defaultIdle || len(p.hosts) > defaultIdle {
		t.Errorf("%d connections to %d hosts are kept, want %d", n, len(p.hosts), defaultIdle)
	}
	now = now.Add(keepIdle + time.Second)
	p.tick()
	if p.idle.Len() != 0 || len(p.hosts) != 0 || p.timer != nil {
		t.Errorf("%d connections to %d hosts are kept for too long", p.idle.Len(), len(p.hosts))
	}
}

// TestKeptConnectionsMakeRoom: connections of our own that take all the files
// are closed before a request fails for want of one.
func TestKeptConnectionsMakeRoom(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(accept))
	defer s.Close()
	client := trial(t, nil)
	if _, err := post(t, client, s.URL); err != nil {
		t.Fatal(err)
	}
	p := client.transport.(*pool)
	dial := p.plain
	p.plain = func(ctx context.Context, _ string) (dialled, error) {
		if p.idle.Len() > 0 {
			return dialled{}, &net.OpError{Op: "dial", Err: syscall.EMFILE}
		}
		return dial(ctx, s.Listener.Addr().String())
	}
	if _, err := post(t, client, "http://127.0.0.2:1/inbox"); err != nil {
		t.Error(err)
	}
}

// TestAConnectionThatHasEndedIsNotUsed: the server's close-notify arrived, but the
// goroutine that reads it had no processor yet.
func TestAConnectionThatHasEndedIsNotUsed(t *testing.T) {
	for i := range 50 {
		s := httptest.NewServer(http.HandlerFunc(accept))
		client := trial(t, nil)
		for range 3 {
			if _, err := post(t, client, s.URL); err != nil {
				t.Fatalf("server %d: %v", i, err)
			}
			s.CloseClientConnections()
		}
		s.Close()
	}
}

// deaf is a connection whose other side has gone before a write, from the moment
// that gone is set.
type deaf struct {
	net.Conn
	gone *atomic.Bool
}

func (d deaf) Write(b []byte) (int, error) {
	if !d.gone.Load() {
		return d.Conn.Write(b)
	}
	d.Close()
	return 0, &net.OpError{Op: "write", Err: syscall.EPIPE}
}

// TestARequestOfWhichNothingWentOutIsSentOnAnotherConnection: the host cannot
// have seen it. On new connections that is not repeated without end.
func TestARequestOfWhichNothingWentOutIsSentOnAnotherConnection(t *testing.T) {
	var taken atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil && len(body) > 0 {
			taken.Add(1)
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	defer s.Close()
	client := trial(t, nil)
	p := client.transport.(*pool)
	dials := 0
	var kept, fresh atomic.Bool // which connections are deaf
	dial := p.plain
	p.plain = func(ctx context.Context, address string) (dialled, error) {
		conn, err := dial(ctx, address)
		if err == nil {
			gone := &kept
			if dials++; dials > 1 {
				gone = &fresh
			}
			conn.Conn = deaf{conn.Conn, gone}
		}
		return conn, err
	}
	if _, err := post(t, client, s.URL); err != nil {
		t.Fatal(err)
	}
	kept.Store(true)
	if _, err := post(t, client, s.URL); err != nil || taken.Load() != 2 || dials != 2 {
		t.Errorf("%d requests were taken on %d connections, want 2 on 2: %v", taken.Load(), dials, err)
	}

	dials = 1
	fresh.Store(true)
	p.closeIdle()
	if _, err := post(t, client, s.URL); err == nil || dials != 2 || taken.Load() != 2 {
		t.Errorf("%d new connections, %d requests were taken: %v", dials-1, taken.Load(), err)
	}
}

// frames serves HTTP/2 connections frame by frame: answer gets each stream that
// is opened, with the number of its connection.
func frames(t *testing.T, answer func(f *http2.Framer, connection int, stream uint32)) (url string, client *Client, requests *atomic.Int32) {
	t.Helper()
	cert, authorities := certificate(t)
	requests = new(atomic.Int32)
	var connections atomic.Int32
	l := listen(t, func(raw net.Conn) {
		conn := tls.Server(raw, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}})
		defer conn.Close()
		number := int(connections.Add(1))
		if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		f := http2.NewFramer(conn, conn)
		_ = f.WriteSettings()
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			if settings, ok := frame.(*http2.SettingsFrame); ok && !settings.IsAck() {
				_ = f.WriteSettingsAck()
			}
			if end, ok := frame.(interface{ StreamEnded() bool }); ok && end.StreamEnded() {
				requests.Add(1)
				answer(f, number, frame.Header().StreamID)
			}
		}
	})
	_, port, err := net.SplitHostPort(l)
	if err != nil {
		t.Fatal(err)
	}
	client = trial(t, func(c *Config) {
		c.RootCAs, c.Resolver = authorities, directory(zone{"a.hosts.test": {"127.0.0.1"}})
	})
	return "https://a.hosts.test:" + port + "/inbox", client, requests
}

// accepted answers a stream with 202.
func accepted(f *http2.Framer, stream uint32) {
	var header bytes.Buffer
	_ = hpack.NewEncoder(&header).WriteField(hpack.HeaderField{Name: ":status", Value: "202"})
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: header.Bytes(), EndHeaders: true, EndStream: true})
}

// TestHTTP2SendsAgainOnlyWhatWasNotLookedAt: a refused stream is safe to repeat
// (RFC 9113, section 8.7), any other end of a stream is not.
func TestHTTP2SendsAgainOnlyWhatWasNotLookedAt(t *testing.T) {
	for _, c := range []struct {
		name     string
		end      func(f *http2.Framer, stream uint32)
		requests int32
		want     outcome.Reason
	}{
		{"refused", func(f *http2.Framer, stream uint32) { _ = f.WriteRSTStream(stream, http2.ErrCodeRefusedStream) }, 2, outcome.ReasonNone},
		{"beyond the last stream of a GOAWAY", func(f *http2.Framer, _ uint32) { _ = f.WriteGoAway(0, http2.ErrCodeNo, nil) }, 2, outcome.ReasonNone},
		{"reset for its protocol", func(f *http2.Framer, stream uint32) { _ = f.WriteRSTStream(stream, http2.ErrCodeProtocol) }, 1, outcome.ConnReset},
		{"reset by an error", func(f *http2.Framer, stream uint32) { _ = f.WriteRSTStream(stream, http2.ErrCodeInternal) }, 1, outcome.ConnReset},
		{"cancelled", func(f *http2.Framer, stream uint32) { _ = f.WriteRSTStream(stream, http2.ErrCodeCancel) }, 1, outcome.ConnReset},
	} {
		t.Run(c.name, func(t *testing.T) {
			var once sync.Once
			url, client, requests := frames(t, func(f *http2.Framer, _ int, stream uint32) {
				ended := false
				once.Do(func() { c.end(f, stream); ended = true })
				if !ended {
					accepted(f, stream)
				}
			})
			_, err := post(t, client, url)
			if ReasonOf(err) != c.want || requests.Load() != c.requests {
				t.Errorf("reason %q, want %q; %d requests, want %d: %v", ReasonOf(err), c.want, requests.Load(), c.requests, err)
			}
		})
	}
}

// TestHTTP2EndsWithAHostThatReadsNothing: net/http writes the beginning of an
// HTTP/2 connection whatever the request's timeout.
func TestHTTP2EndsWithAHostThatReadsNothing(t *testing.T) {
	cert, authorities := certificate(t)
	client := trial(t, func(c *Config) { c.Timeout = 200 * time.Millisecond })
	// A pipe has no buffer: what is written waits until it is read.
	client.transport.(*pool).secure = func(ctx context.Context, _ string) (dialled, error) {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { theirs.Close() })
		host := tls.Server(theirs, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}, SessionTicketsDisabled: true})
		go func() { _ = host.Handshake() }()
		conn := tls.Client(ours, &tls.Config{RootCAs: authorities, ServerName: "a.hosts.test", NextProtos: []string{"h2"}})
		if err := conn.HandshakeContext(ctx); err != nil {
			return dialled{}, err
		}
		return dialled{Conn: conn, raw: ours}, nil
	}
	done := make(chan error)
	go func() {
		_, err := post(t, client, "https://a.hosts.test/inbox")
		done <- err
	}()
	select {
	case err := <-done:
		if ReasonOf(err) != outcome.Timeout {
			t.Errorf("reason %q: %v", ReasonOf(err), err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the request has no end")
	}
}

// TestHTTP2GivesUpAfterSomeRefusals: a host that refuses every stream does not
// get requests without end.
func TestHTTP2GivesUpAfterSomeRefusals(t *testing.T) {
	url, client, requests := frames(t, func(f *http2.Framer, _ int, stream uint32) {
		_ = f.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
	})
	_, err := post(t, client, url)
	if ReasonOf(err) != outcome.ConnReset || requests.Load() != resends+1 {
		t.Errorf("%d requests, want %d: %v", requests.Load(), resends+1, err)
	}
}

// TestAnErrorOfOursIsNotTheHostsFault: a request that ended without an answer, and neither by
// the network nor by the host.
func TestAnErrorOfOursIsNotTheHostsFault(t *testing.T) {
	got := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(got)
		<-r.Context().Done()
	}))
	defer s.Close()
	p := trial(t, nil).transport.(*pool)
	k, _, err := p.get(t.Context(), "http", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-got
		_ = k.conn.Close()
	}()
	r, err := NewRequest(t.Context(), http.MethodGet, s.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	res, err := p.send(k, r)
	if err == nil {
		res.Body.Close()
	}
	if !errors.Is(err, ErrStopped) {
		t.Errorf("error %v, want ErrStopped", err)
	}
}
