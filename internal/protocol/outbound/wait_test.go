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
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestOneFullHandshakeWithEachHost sends four activities at once to each of 12 hosts, four
// times; after each time the connections are closed. A host's first connection needs a full
// handshake, and no other one does.
func TestOneFullHandshakeWithEachHost(t *testing.T) {
	const hosts, rounds = 12, 4
	for _, http2 := range []bool{false, true} {
		var full, resumed atomic.Int32
		cert, authorities := certificate(t)
		s, _ := secure(t, accept, func(s *httptest.Server) {
			s.EnableHTTP2 = http2
			s.TLS.Certificates = []tls.Certificate{cert}
			s.TLS.VerifyConnection = func(state tls.ConnectionState) error {
				if state.DidResume {
					resumed.Add(1)
				} else {
					full.Add(1)
				}
				return nil
			}
		})
		names := zone{}
		for h := range hosts {
			names[fmt.Sprintf("h%d.hosts.test", h)] = []string{"127.0.0.1"}
		}
		client := trial(t, func(c *Config) {
			c.RootCAs, c.Resolver = authorities, directory(names)
			c.Connect, c.TLS = time.Hour, time.Hour
		})
		p := client.transport.(*pool)
		// A busy machine is not what is tested.
		p.first, p.pause = time.Hour, func() { time.Sleep(100 * time.Millisecond) }
		for range rounds {
			var all sync.WaitGroup
			for range 4 {
				for h := range hosts {
					all.Go(func() {
						if _, err := post(t, client, fmt.Sprintf("https://h%d.hosts.test:%s/", h, portOf(t, s.URL))); err != nil {
							t.Error(err)
						}
					})
				}
			}
			all.Wait()
			p.closeIdle()
		}
		if full.Load() != hosts || resumed.Load() < hosts*(rounds-1) {
			t.Errorf("HTTP/2 %v: %d full handshakes with %d hosts, %d resumed in %d rounds", http2, full.Load(), hosts, resumed.Load(), rounds)
		}
		if len(p.hosts) != 0 || p.idle.Len() != 0 || p.spare.Len() != 0 {
			t.Errorf("HTTP/2 %v: %d hosts are left", http2, len(p.hosts))
		}
	}
}

// site is a host in this process. It is reached by https without the TLS, so that synctest
// knows when all wait.
type site struct {
	client *Client
	pool   *pool
	begun  time.Time
	dials  atomic.Int32
	// dial runs when a connection is made, with its number; answer when a request has come.
	// nil: nothing happens.
	dial   func(ctx context.Context, n int32) error
	answer func(path string)
	close  bool // the connection after each answer
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{client: trial(t, nil), begun: time.Now()}
	s.pool = s.client.transport.(*pool)
	s.pool.secure = func(ctx context.Context, _ string) (dialled, error) {
		if n := s.dials.Add(1); s.dial != nil {
			if err := s.dial(ctx, n); err != nil {
				return dialled{}, err
			}
		}
		ours, theirs := net.Pipe()
		go s.serve(theirs)
		return dialled{Conn: ours, raw: ours}, nil
	}
	return s
}

func (s *site) serve(conn net.Conn) {
	defer conn.Close()
	for in := bufio.NewReader(conn); ; {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		if s.answer != nil {
			s.answer(r.URL.Path)
		}
		end := ""
		if s.close {
			end = "Connection: close\r\n"
		}
		if _, err := io.WriteString(conn, "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n"+end+"\r\n"); err != nil || s.close {
			return
		}
	}
}

// know gives the client a TLS session of the host.
func (s *site) know() {
	cs, _ := tls.NewResumptionState([]byte("ticket"), &tls.SessionState{})
	s.pool.sessions.ClientSessionCache.Put("a.hosts.test", cs)
}

// took is the time since the site was made.
func (s *site) took() time.Duration { return time.Since(s.begun) }

func (s *site) post(t *testing.T, path string) error {
	_, err := post(t, s.client, "https://a.hosts.test"+path)
	return err
}

// empty fails if the pool has anything of a host.
func (s *site) empty(t *testing.T) {
	t.Helper()
	s.pool.closeIdle()
	if len(s.pool.hosts) != 0 || s.pool.idle.Len() != 0 || s.pool.spare.Len() != 0 {
		t.Errorf("the pool still has %d hosts, %d connections, %d spare", len(s.pool.hosts), s.pool.idle.Len(), s.pool.spare.Len())
	}
}

// both sends to two paths of the host, the second when the first is under way.
func (s *site) both(t *testing.T, first, second string) (err1, err2 error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		err1 = s.post(t, first)
	}()
	synctest.Wait()
	err2 = s.post(t, second)
	<-done
	return err1, err2
}

// TestARequestWaitsForAConnectionOnlySoLong: the other request may get no answer for long.
func TestARequestWaitsForAConnectionOnlySoLong(t *testing.T) {
	const answers = 10 * time.Second
	slow := func(s *site) {
		s.answer = func(path string) {
			if path == "/slow" {
				time.Sleep(answers)
			}
		}
	}
	for _, c := range []struct {
		name  string
		set   func(s *site)
		after time.Duration // until the second request has its answer
		dials int32
	}{
		{"known, answers soon", func(s *site) {
			s.know()
			s.answer = func(path string) {
				if path == "/slow" {
					time.Sleep(busyWait / 2)
				}
			}
		}, busyWait / 2, 1},
		{"known, answers late", func(s *site) { s.know(); slow(s) }, busyWait, 2},
		{"unknown, answers within the time for that", func(s *site) {
			s.answer = func(path string) {
				if path == "/slow" {
					time.Sleep(firstWait - 1)
				}
			}
		}, firstWait - 1, 1},
		{"unknown, answers late", slow, firstWait, 2},
		{"unknown, is late to be connected to", func(s *site) {
			s.dial = func(_ context.Context, n int32) error {
				if n == 1 {
					time.Sleep(answers)
				}
				return nil
			}
		}, firstWait, 2},
		{"unknown, sends a ticket and answers late", func(s *site) {
			slow(s)
			s.dial = func(context.Context, int32) error {
				go func() {
					time.Sleep(time.Second)
					s.know()
					s.pool.ticket("https://a.hosts.test:443", true)
				}()
				return nil
			}
		}, time.Second + busyWait, 2},
		{"its session has become useless", func(s *site) {
			s.know()
			slow(s)
			s.dial = func(_ context.Context, n int32) error {
				if n == 1 {
					s.pool.sessions.Put("a.hosts.test", nil)
					s.pool.ticket("https://a.hosts.test:443", false)
				}
				return nil
			}
		}, firstWait, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t)
				c.set(s)
				var first error
				done := make(chan struct{})
				go func() { defer close(done); first = s.post(t, "/slow") }()
				synctest.Wait()
				if err := s.post(t, "/"); err != nil || s.took() != c.after {
					t.Errorf("answered after %v, want %v: %v", s.took(), c.after, err)
				}
				<-done
				if first != nil || s.dials.Load() != c.dials {
					t.Errorf("%d connections, want %d: %v", s.dials.Load(), c.dials, first)
				}
				s.empty(t)
			})
		})
	}
}

// TestARequestDoesNotWaitForAConnectionThatIsGone: the next request takes the place of one
// whose connection cannot be made or used again.
func TestARequestDoesNotWaitForAConnectionThatIsGone(t *testing.T) {
	refused := errors.New("refused")
	for name, set := range map[string]func(s *site){
		"not made": func(s *site) {
			s.dial = func(_ context.Context, n int32) error {
				if n == 1 {
					time.Sleep(time.Millisecond)
					return refused
				}
				return nil
			}
		},
		"closed": func(s *site) {
			s.close = true
			s.answer = func(path string) {
				if path == "/first" {
					time.Sleep(time.Millisecond)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t)
				set(s)
				err1, err2 := s.both(t, "/first", "/")
				if err2 != nil || s.took() != time.Millisecond || s.dials.Load() != 2 || (err1 != nil) != errors.Is(err1, refused) {
					t.Errorf("after %v and %d connections: %v, %v", s.took(), s.dials.Load(), err1, err2)
				}
				s.empty(t)
			})
		})
	}
}

// TestARequestThatIsGivenUpWhileItWaitsLeavesNothing, also not one that gets its connection
// at the same moment.
func TestARequestThatIsGivenUpWhileItWaitsLeavesNothing(t *testing.T) {
	for _, end := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t)
			s.answer = func(path string) {
				if path == "/first" {
					time.Sleep(2 * time.Second)
				}
			}
			var all sync.WaitGroup
			all.Go(func() {
				if err := s.post(t, "/first"); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), end)
			defer cancel()
			for range 3 {
				all.Go(func() {
					r, err := NewRequest(ctx, http.MethodPost, "https://a.hosts.test/", "x")
					if err != nil {
						t.Error(err)
						return
					}
					if _, err := s.client.Do(ctx, r); err != nil && !errors.Is(err, ErrStopped) {
						t.Errorf("given up after %v: %v", end, err)
					}
				})
			}
			all.Wait()
			// A request that is given up when it has the connection already, ends that.
			if err := s.post(t, "/"); err != nil || s.dials.Load() != 1 && end != 2*time.Second {
				t.Errorf("given up after %v, %d connections: %v", end, s.dials.Load(), err)
			}
			s.empty(t)
		})
	}
}

// TestAConnectionToEachHostIsWorthMoreThanASecondToOne: the pool is full.
func TestAConnectionToEachHostIsWorthMoreThanASecondToOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var connections atomic.Int32
		client := trial(t, func(c *Config) { c.Idle = 4 })
		pipe(client, accepting(&connections))
		send := func(host string, n int) {
			var all sync.WaitGroup
			for range n {
				all.Go(func() {
					if _, err := post(t, client, "http://"+host+".hosts.test/"); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
		}
		for _, host := range []string{"b", "c", "d"} {
			send(host, 1)
		}
		send("a", 3)
		before := connections.Load()
		for _, host := range []string{"a", "b", "c", "d"} {
			send(host, 1)
		}
		p := client.transport.(*pool)
		if n := connections.Load() - before; n != 0 || p.idle.Len() != 4 || p.spare.Len() != 0 {
			t.Errorf("%d new connections; %d are kept, %d of them spare", n, p.idle.Len(), p.spare.Len())
		}
		send("e", 1) // now there is no spare one
		if p.idle.Len() != 4 || len(p.hosts) != 4 || p.hosts["http://a.hosts.test:80"] != nil {
			t.Errorf("%d connections to %d hosts are kept", p.idle.Len(), len(p.hosts))
		}
		p.closeIdle()
		if p.spare.Len() != 0 || len(p.hosts) != 0 {
			t.Errorf("%d hosts, %d spare connections are left", len(p.hosts), p.spare.Len())
		}
	})
}

// TestTheLastConnectionToAHostIsNotSpare, when the other one has become too old.
func TestTheLastConnectionToAHostIsNotSpare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.know()
		s.pool.most = 4
		s.answer = func(path string) {
			if path == "/slow" {
				time.Sleep(keepIdle - 10*time.Second)
			}
		}
		send := func(host string) {
			if _, err := post(t, s.client, "https://"+host+".hosts.test/"); err != nil {
				t.Error(err)
			}
		}
		var all sync.WaitGroup
		all.Go(func() {
			time.Sleep(10 * time.Second)
			send("b")
		})
		if err1, err2 := s.both(t, "/slow", "/"); err1 != nil || err2 != nil || s.pool.spare.Len() != 1 {
			t.Errorf("%d spare connections: %v, %v", s.pool.spare.Len(), err1, err2)
		}
		all.Wait()
		time.Sleep(11 * time.Second)
		for _, host := range []string{"c", "d", "e"} {
			send(host)
		}
		if s.pool.idle.Len() != 4 || s.pool.hosts["https://b.hosts.test:443"] != nil || s.pool.hosts["https://a.hosts.test:443"] == nil {
			t.Errorf("%d connections are kept, not that unused for longest, or none to the first host", s.pool.idle.Len())
		}
		s.empty(t)
	})
}
