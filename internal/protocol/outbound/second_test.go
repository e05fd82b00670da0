package outbound

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// twoAddresses serves one port of 127.0.44.1 with bad, and of 127.0.44.2 with good.
func twoAddresses(t *testing.T, bad, good func(net.Conn)) (port string) {
	t.Helper()
	for range 20 {
		first, err := net.Listen("tcp", "127.0.44.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ = net.SplitHostPort(first.Addr().String())
		last, err := net.Listen("tcp", "127.0.44.2:"+port)
		if err != nil {
			first.Close()
			continue
		}
		for l, serve := range map[net.Listener]func(net.Conn){first: bad, last: good} {
			t.Cleanup(func() { l.Close() })
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					go func() {
						defer conn.Close()
						serve(conn)
					}()
				}
			}()
		}
		return port
	}
	t.Fatal("no port is free on both addresses")
	return ""
}

// hang takes what comes and answers nothing.
func hang(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

func resetNow(conn net.Conn) {
	_, _ = conn.Read(make([]byte, 1))
	_ = conn.(*net.TCPConn).SetLinger(0)
}

// passOn connects to another address.
func passOn(address string) func(net.Conn) {
	return func(conn net.Conn) {
		to, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		defer to.Close()
		go func() {
			_, _ = io.Copy(to, conn)
			to.Close()
		}()
		_, _ = io.Copy(conn, to)
	}
}

// carrier is a proxy for CONNECT that goes where it is told.
func carrier(t *testing.T) *url.URL {
	t.Helper()
	return &url.URL{Scheme: "http", Host: listen(t, func(conn net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 Yes\r\n\r\n")
		passOn(r.Host)(conn)
	})}
}

// mute takes one request of an HTTP version, counts it, and ends the connection in its way.
func mute(config *tls.Config, posts *atomic.Int32, end func(net.Conn)) func(net.Conn) {
	return func(raw net.Conn) {
		conn := tls.Server(raw, config)
		if conn.Handshake() != nil {
			return
		}
		if in := bufio.NewReader(conn); config.NextProtos[0] == "h2" {
			_, _ = io.ReadFull(in, make([]byte, len(http2.ClientPreface)))
			f := http2.NewFramer(conn, in)
			for frame, err := f.ReadFrame(); err == nil && frame.Header().Type != http2.FrameHeaders; {
				frame, err = f.ReadFrame()
			}
		} else if _, err := in.ReadString('\n'); err != nil {
			return
		}
		posts.Add(1)
		end(raw)
	}
}

// TestAnAddressThatDoesNotAnswerGivesWayToTheNext at the second try. No try sends two requests.
func TestAnAddressThatDoesNotAnswerGivesWayToTheNext(t *testing.T) {
	cert, authorities := certificate(t)
	for _, version := range []string{"h2", "http/1.1"} {
		config := &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{version}}
		good, _ := secure(t, accept, func(s *httptest.Server) { s.EnableHTTP2, s.TLS = version == "h2", config.Clone() })
		for _, c := range []struct {
			name string
			bad  func(net.Conn)
			end  func(net.Conn) // after the request; nil: bad gets none
		}{
			{"hangs in TLS", hang, nil},
			{"resets in TLS", resetNow, nil},
			{"hangs up in TLS", hello, nil},
			{"shows another server's certificate", func(raw net.Conn) {
				s := httptest.NewUnstartedServer(nil)
				s.StartTLS()
				defer s.Close()
				_ = tls.Server(raw, s.TLS).Handshake()
			}, nil},
			{"hangs after the request", nil, hang},
			{"resets after the request", nil, func(raw net.Conn) { _ = raw.(*net.TCPConn).SetLinger(0) }},
		} {
			for _, through := range []string{"", "proxy"} {
				t.Run(strings.TrimSpace(version+" "+c.name+" "+through), func(t *testing.T) {
					t.Parallel()
					var posts atomic.Int32 // that the bad address has taken
					bad := c.bad
					if bad == nil {
						bad = mute(config, &posts, c.end)
					}
					port := twoAddresses(t, bad, passOn(good.Listener.Addr().String()))
					client := trial(t, func(cfg *Config) {
						cfg.RootCAs, cfg.Resolver = authorities, directory(zone{"a.hosts.test": {"127.0.44.1", "127.0.44.2"}})
						cfg.Timeout, cfg.TLS = 4*time.Second, 2*time.Second
						if through != "" {
							cfg.Proxy = carrier(t)
						}
					})
					p := client.transport.(*pool)
					for n, want := range []bool{false, true, true} {
						a, err := post(t, client, "https://a.hosts.test:"+port+"/inbox")
						if ok := err == nil && a.Status == http.StatusAccepted; ok != want {
							t.Fatalf("try %d: %d, %v", n+1, a.Status, err)
						}
						if want {
							p.closeIdle()
						}
					}
					if s := p.seconds.of("a.hosts.test:" + port); strings.Contains(c.name, "TLS") != s.classic(netip.Addr{}) || s.http1 {
						t.Errorf("remembered: %+v", s)
					}
					if n := posts.Load(); (n == 1) != (c.end != nil) {
						t.Errorf("the bad address got %d requests of one try", n)
					}
				})
			}
		}
	}
}

// box stands before a server, and does not let a ClientHello longer than most bytes pass: it reads that
// much and then ends the connection in its way.
func box(most int, server string, end func(net.Conn)) func(net.Conn) {
	return func(conn net.Conn) {
		header := make([]byte, 5)
		if _, err := io.ReadFull(conn, header); err != nil {
			return
		}
		length := int(header[3])<<8 | int(header[4])
		if 5+length > most {
			_, _ = io.CopyN(io.Discard, conn, int64(most-5))
			end(conn)
			return
		}
		to, err := net.Dial("tcp", server)
		if err != nil {
			return
		}
		defer to.Close()
		_, _ = to.Write(header)
		go func() {
			_, _ = io.Copy(to, conn)
			to.Close()
		}()
		_, _ = io.Copy(conn, to)
	}
}

// TestABoxThatTakesNoLargeClientHelloGetsASmallOne at the second try, and at each until a day is over.
func TestABoxThatTakesNoLargeClientHelloGetsASmallOne(t *testing.T) {
	good, authorities := secure(t, accept, nil)
	for name, end := range map[string]func(net.Conn){
		"resets": func(conn net.Conn) { _ = conn.(*net.TCPConn).SetLinger(0) },
		"hangs":  hang,
		"alerts": func(conn net.Conn) { _, _ = conn.Write([]byte{21, 3, 1, 0, 2, 2, 40}); hang(conn) },
		"page":   func(conn net.Conn) { _, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n"); hang(conn) },
		"closes": func(net.Conn) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Now()
			client := trial(t, func(c *Config) {
				c.RootCAs, c.TLS, c.Now = authorities, 2*time.Second, func() time.Time { return now }
			})
			address := "https://" + listen(t, box(1460, good.Listener.Addr().String(), end))
			for n, want := range []bool{false, true, true, false, true} {
				if n == 3 {
					now = now.Add(keepSecond)
				}
				a, err := post(t, client, address)
				if ok := err == nil && a.Status == http.StatusAccepted; ok != want {
					t.Errorf("try %d: %d, %v", n+1, a.Status, err)
				}
				client.transport.(*pool).closeIdle()
			}
			if n := client.transport.(*pool).seconds.proven.Len(); n != 1 {
				t.Errorf("%d hosts have answered in their second way, want 1", n)
			}
		})
	}
}

// TestHostsThatAreWellGetMLKEM, and HTTP/2: nothing is remembered of them.
func TestHostsThatAreWellGetMLKEM(t *testing.T) {
	var curve atomic.Uint32
	good, authorities := secure(t, func(w http.ResponseWriter, r *http.Request) {
		curve.Store(uint32(r.TLS.CurveID))
		if r.URL.Path == "/wrong" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}, nil)
	client := trial(t, func(c *Config) { c.RootCAs = authorities })
	p := client.transport.(*pool)
	for _, path := range []string{"/inbox", "/wrong", "/inbox"} {
		if a, err := post(t, client, good.URL+path); err != nil || a.Proto != "HTTP/2.0" || tls.CurveID(curve.Load()) != tls.X25519MLKEM768 {
			t.Errorf("%s %v, key exchange %v", a.Proto, err, tls.CurveID(curve.Load()))
		}
		p.closeIdle()
	}
	if n := len(p.seconds.hosts); n != 0 {
		t.Errorf("%d hosts are remembered", n)
	}
}

// TestAHostThatStopsAnsweringLaterKeepsItsWay: a request that hangs on a connection which has answered
// others says nothing about the address, nor does one that the caller gives up.
func TestAHostThatStopsAnsweringLaterKeepsItsWay(t *testing.T) {
	got := make(chan struct{})
	s, authorities := secure(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			got <- struct{}{}
			<-r.Context().Done()
		}
	}, nil)
	client := trial(t, func(c *Config) { c.RootCAs = authorities })
	p := client.transport.(*pool)
	hangUntil := func(cause error) {
		ctx, cancel := context.WithCancelCause(t.Context())
		wrote := make(chan struct{})
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { close(wrote) }})
		go func() {
			<-got
			<-wrote
			cancel(cause)
		}()
		r, err := NewRequest(ctx, http.MethodPost, s.URL+"/hang", "x")
		if err != nil {
			t.Fatal(err)
		}
		if _, err = client.Do(ctx, r); err == nil {
			t.Fatal("was answered")
		}
	}
	hangUntil(errors.New("shutdown"))
	if _, err := post(t, client, s.URL); err != nil {
		t.Fatal(err)
	}
	hangUntil(ErrTimeout)
	if n := len(p.seconds.hosts); n != 0 {
		t.Errorf("%d hosts are remembered: %+v", n, p.seconds.of(strings.TrimPrefix(s.URL, "https://")))
	}
	p.closeIdle()
	hangUntil(ErrTimeout)
	if n := len(p.seconds.hosts); n != 1 {
		t.Errorf("%d hosts are remembered, want the one whose new connection is silent", n)
	}
}

// TestEveryAddressIsTriedInBothWays, whichever of them fail: nothing that is remembered keeps a way that
// works from being tried within two rounds.
func TestEveryAddressIsTriedInBothWays(t *testing.T) {
	for count := 1; count <= mostAddresses; count++ {
		var found []netip.Addr
		for i := range count {
			found = append(found, netip.AddrFrom4([4]byte{9, 9, 9, byte(i)}))
			if i%2 == 0 {
				found[i] = netip.MustParseAddr(fmt.Sprintf("2a0f::%d", i))
			}
		}
		tried := map[failure]bool{}
		var s second
		for n := range 2 * count {
			addr := s.pick(found)
			way := failure{addr, s.classic(addr)}
			if n == 1 && (!way.classic || count > 1 && addr.Is4() == found[0].Is4()) {
				t.Errorf("of %d addresses, the second try is %+v", count, way)
			}
			tried[way] = true
			s.fail(addr, !way.classic)
		}
		if len(tried) != 2*count {
			t.Errorf("of %d addresses in two ways each, %d are tried: %v", count, len(tried), tried)
		}
	}
}

// TestFewHostsAreRemembered: a stranger's many hosts that never answer drive out each other, not one
// whose second way has served; and many that answer do not take more memory.
func TestFewHostsAreRemembered(t *testing.T) {
	s := newSeconds(nil)
	learn := func(address string) { s.learn(address, func(w *second) { w.http1 = true }) }
	for i := range 3 * mostSeconds {
		learn(fmt.Sprintf("%d.stranger.test:443", i))
		if i == 0 {
			learn("good.test:443")
			s.answered("good.test:443")
		}
	}
	if n := len(s.hosts); n != mostSeconds || !s.of("good.test:443").http1 {
		t.Errorf("%d hosts are remembered, want %d; the good one: %+v", n, mostSeconds, s.of("good.test:443"))
	}
	for i := range 3 * mostSeconds {
		address := fmt.Sprintf("%d.answering.test:443", i)
		learn(address)
		s.answered(address)
	}
	if n := len(s.hosts); n != mostSeconds || s.guesses.Len()+s.proven.Len() != n {
		t.Errorf("%d hosts, %d and %d in order", n, s.guesses.Len(), s.proven.Len())
	}
}

// TestManyRequestsAtOnceFindTheSecondWay of one host, whose first way fails while others use it.
func TestManyRequestsAtOnceFindTheSecondWay(t *testing.T) {
	var taken atomic.Int32
	good, authorities := secure(t, func(w http.ResponseWriter, r *http.Request) { taken.Add(1) }, nil)
	client := trial(t, func(c *Config) { c.RootCAs = authorities })
	address := "https://" + listen(t, box(1460, good.Listener.Addr().String(), func(net.Conn) {}))
	var failed atomic.Int32
	for range 2 {
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if _, err := post(t, client, address); err != nil {
					failed.Add(1)
				}
			})
		}
		all.Wait()
	}
	if n := failed.Load(); n > 20 || taken.Load() != 40-n {
		t.Errorf("%d of 40 failed, %d were taken", n, taken.Load())
	}
}
