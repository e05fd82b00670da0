package outbound

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// versions serves TLS: HTTP/2 frame by frame, where refuse gets each request, or on each connection
// everything if begin takes it; and HTTP/1.1 with one status after the other, the last for ever.
type versions struct {
	begin    func(net.Conn) bool // nil: takes none
	refuse   func(f *http2.Framer, stream uint32)
	statuses []int
	hangUp   bool         // in place of an answer on HTTP/1.1
	one, two atomic.Int32 // requests on HTTP/1.1 and on HTTP/2
	client   *Client
	url      string
}

func (v *versions) start(t *testing.T) *versions {
	t.Helper()
	s := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	config := &tls.Config{Certificates: s.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}}
	s.Close()
	v.url = "https://" + listen(t, func(conn net.Conn) { v.serve(tls.Server(conn, config)) }) + "/inbox"
	var err error
	v.client, err = New(Config{UserAgent: "fedpost/test", AllowPrivate: true, RootCAs: roots, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (v *versions) serve(conn *tls.Conn) {
	switch {
	case conn.Handshake() != nil:
	case conn.ConnectionState().NegotiatedProtocol != "h2":
		v.http1(conn)
	case v.begin == nil || !v.begin(conn):
		v.http2(conn)
	}
}

func (v *versions) http1(conn net.Conn) {
	for in := bufio.NewReader(conn); ; {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		n := min(int(v.one.Add(1)), len(v.statuses))
		if v.hangUp {
			return
		}
		_ = (&http.Response{StatusCode: v.statuses[n-1], ProtoMajor: 1, ProtoMinor: 1}).Write(conn)
	}
}

func (v *versions) http2(conn net.Conn) {
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	f := http2.NewFramer(conn, conn)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_ = f.WriteSettings()
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				_ = f.WriteSettingsAck()
			}
		case *http2.MetaHeadersFrame:
			v.two.Add(1)
			v.refuse(f, frame.StreamID)
		case *http2.GoAwayFrame:
			return
		}
	}
}

func (v *versions) post(t *testing.T) (Answer, error) {
	t.Helper()
	r, err := NewRequest(t.Context(), http.MethodPost, v.url, `{"type":"Like"}`)
	if err != nil {
		t.Fatal(err)
	}
	return v.client.Do(t.Context(), r)
}

// status answers a stream.
func status(f *http2.Framer, stream uint32, code string) {
	var header headers
	_ = hpack.NewEncoder(&header).WriteField(hpack.HeaderField{Name: ":status", Value: code})
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: header, EndHeaders: true, EndStream: true})
}

type headers []byte

func (h *headers) Write(p []byte) (int, error) { *h = append(*h, p...); return len(p), nil }

// TestHTTP11Required: a server that negotiates HTTP/2 but does not want it gets the request on HTTP/1.1,
// at once if it has said that it did not process it, and later ones without asking on HTTP/2.
func TestHTTP11Required(t *testing.T) {
	for _, c := range []struct {
		name   string
		begin  func(net.Conn) bool
		refuse func(f *http2.Framer, stream uint32)
		later  bool // the first try fails
	}{
		{"of a stream", nil, func(f *http2.Framer, stream uint32) { _ = f.WriteRSTStream(stream, http2.ErrCodeHTTP11Required) }, false},
		{"of a GOAWAY", nil, func(f *http2.Framer, _ uint32) { _ = f.WriteGoAway(0, http2.ErrCodeHTTP11Required, nil) }, false},
		{"of a GOAWAY for our ciphers", nil, func(f *http2.Framer, _ uint32) { _ = f.WriteGoAway(0, http2.ErrCodeInadequateSecurity, nil) }, false},
		{"of a GOAWAY that names the stream", func(conn net.Conn) bool {
			in := bufio.NewReader(conn)
			_, _ = io.ReadFull(in, make([]byte, len(http2.ClientPreface)))
			f := http2.NewFramer(conn, in)
			_ = f.WriteSettings()
			for frame, err := f.ReadFrame(); err == nil; frame, err = f.ReadFrame() {
				if frame.Header().Type == http2.FrameHeaders {
					_ = f.WriteGoAway(frame.Header().StreamID, http2.ErrCodeHTTP11Required, []byte("no"))
					return true
				}
			}
			return true
		}, nil, true},
		{"of one that speaks HTTP/1.1 all the same", func(conn net.Conn) bool {
			in := bufio.NewReader(conn)
			_, _ = io.ReadFull(in, make([]byte, len(http2.ClientPreface)))
			_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
			_, _ = io.Copy(io.Discard, in)
			return true
		}, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := (&versions{begin: c.begin, refuse: c.refuse, statuses: []int{202}}).start(t)
			for n := range 3 {
				a, err := v.post(t)
				if c.later && n == 0 && err != nil {
					continue // where the server is quick, the request had not gone out, and was sent again at once
				}
				if err != nil || a.Status != http.StatusAccepted || a.Proto != "HTTP/1.1" {
					t.Errorf("request %d: %d %s, %v", n+1, a.Status, a.Proto, err)
				}
			}
			if one, two := v.one.Load(), v.two.Load(); two > 1 || one < 2 {
				t.Errorf("%d requests on HTTP/2, %d on HTTP/1.1", two, one)
			}
		})
	}
}

// TestHTTP2IsTriedAgainWhereHTTP1IsNotSpoken, as what was learnt may have been wrong.
func TestHTTP2IsTriedAgainWhereHTTP1IsNotSpoken(t *testing.T) {
	v := &versions{statuses: []int{202}}
	v.refuse = func(f *http2.Framer, stream uint32) {
		if v.two.Load() > 1 {
			status(f, stream, "202")
			return
		}
		_ = f.WriteRSTStream(stream, http2.ErrCodeHTTP11Required)
	}
	v.hangUp = true
	v.start(t)
	if a, err := v.post(t); err == nil {
		t.Fatalf("%d: HTTP/1.1 does not work", a.Status)
	}
	if a, err := v.post(t); err != nil || a.Proto != "HTTP/2.0" {
		t.Errorf("%d %s, %v", a.Status, a.Proto, err)
	}
}

// TestAHostThatWantsHTTP1AndDoesNotTakeItGetsNoRequestTwice after the first.
func TestAHostThatWantsHTTP1AndDoesNotTakeItGetsNoRequestTwice(t *testing.T) {
	v := (&versions{hangUp: true, refuse: func(f *http2.Framer, stream uint32) { _ = f.WriteRSTStream(stream, http2.ErrCodeHTTP11Required) }}).start(t)
	for range 6 {
		if a, err := v.post(t); err == nil {
			t.Fatalf("%d", a.Status)
		}
	}
	if one, two := v.one.Load(), v.two.Load(); one+two != 7 || one < 3 || two < 3 {
		t.Errorf("%d requests on HTTP/1.1 and %d on HTTP/2 of six, want seven in turns", one, two)
	}
}

// TestAMisdirectedRequestIsSentOnceMore on a new connection of HTTP/1.1, which is kept to if that helps. If
// not, that is remembered, too, so that it does not double the requests.
func TestAMisdirectedRequestIsSentOnceMore(t *testing.T) {
	misdirect := func(f *http2.Framer, stream uint32) { status(f, stream, "421") }
	t.Run("helps", func(t *testing.T) {
		v := (&versions{refuse: misdirect, statuses: []int{202}}).start(t)
		for range 3 {
			if a, err := v.post(t); err != nil || a.Status != http.StatusAccepted {
				t.Errorf("%d %v", a.Status, err)
			}
		}
		if one, two := v.one.Load(), v.two.Load(); one != 3 || two != 1 {
			t.Errorf("%d requests on HTTP/1.1, %d on HTTP/2", one, two)
		}
	})
	t.Run("does not help", func(t *testing.T) {
		v := (&versions{refuse: misdirect, statuses: []int{421}}).start(t)
		for range 3 {
			if a, err := v.post(t); err != nil || a.Status != http.StatusMisdirectedRequest {
				t.Errorf("%d %v", a.Status, err)
			}
		}
		if n := v.one.Load() + v.two.Load(); n != 4 {
			t.Errorf("%d requests for three, want one more", n)
		}
	})
	t.Run("on HTTP/1.1", func(t *testing.T) {
		var connections atomic.Int32
		var requests atomic.Int32
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(map[bool]int{true: 421, false: 202}[requests.Add(1) == 1])
		}))
		s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				connections.Add(1)
			}
		}
		s.Start()
		defer s.Close()
		client, err := New(Config{UserAgent: "fedpost/test", AllowPrivate: true})
		if err != nil {
			t.Fatal(err)
		}
		a, err := (&versions{client: client, url: s.URL}).post(t)
		if err != nil || a.Status != http.StatusAccepted || connections.Load() != 2 {
			t.Errorf("%d on %d connections: %v", a.Status, connections.Load(), err)
		}
	})
}
