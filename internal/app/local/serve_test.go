package local

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/api"
	"fedpost/internal/app/topology"
	"fedpost/internal/enqueue/dedup"
)

func TestWithoutATokenOnlyLoopbackNamesAreAnswered(t *testing.T) {
	served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	ask := func(token, host string) (int, string) {
		s := httpServer(Options{Token: token, Services: Services{API: served}, Log: slog.New(slog.DiscardHandler)})
		r := httptest.NewRequest("GET", "/v1/servers", nil)
		r.Host = host
		w := httptest.NewRecorder()
		s.Handler.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for host, ok := range map[string]bool{
		"127.0.0.1:8080": true, "127.0.0.1": true, "127.8.8.8:1": true, "localhost": true, "LocalHost:8080": true, "[::1]:8080": true, "[::1]": true, "[::ffff:127.0.0.1]:80": true,
		"evil.example": false, "evil.example:8080": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false, "127.0.0.1.nip.io:8080": false,
		"10.0.0.1:8080": false, "0.0.0.0:8080": false, "[::]:8080": false, "192.168.1.5": false, "": false, ":8080": false, "2130706433": false, "0177.0.0.1": false,
	} {
		status, body := ask("", host)
		if ok && status != http.StatusTeapot {
			t.Errorf("Host %q is answered %d %s, want %d", host, status, body, http.StatusTeapot)
		}
		if !ok && (status != http.StatusMisdirectedRequest || !strings.Contains(body, "FEDPOST_API_TOKEN")) {
			t.Errorf("Host %q is answered %d %s, want %d that names FEDPOST_API_TOKEN", host, status, body, http.StatusMisdirectedRequest)
		}
		if status, _ := ask("a token of sixteen", host); status != http.StatusTeapot {
			t.Errorf("with a token Host %q is answered %d", host, status)
		}
	}
}

// TestNoRequestOutlivesItsLease compares two numbers: another caller may take
// over a lapsed lease, so the request that held the lease must have ended.
func TestNoRequestOutlivesItsLease(t *testing.T) {
	if RequestTime >= dedup.LeaseTime || topology.Enqueue.Timeout >= dedup.LeaseTime {
		t.Errorf("a request takes up to %s here and %s on Lambda, the lease on its key ends after %s", RequestTime, topology.Enqueue.Timeout, dedup.LeaseTime)
	}
	var left time.Duration
	synctest.Test(t, func(t *testing.T) {
		h := inTime(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			deadline, _ := r.Context().Deadline()
			left = time.Until(deadline)
		}))
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	})
	if left != RequestTime {
		t.Errorf("a request has %s", left)
	}
}

// pipes is a listener for connections in memory, which work in a synctest bubble.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p pipes) Close() error   { close(p.done); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080} }

// dial connects and starts to send text; the rest is dropped when the server closes the connection.
func (p pipes) dial(text string) net.Conn {
	client, server := net.Pipe()
	go func() {
		select {
		case p.conns <- server:
		case <-p.done:
			return
		}
		_, _ = io.WriteString(client, text) // the server may have closed it
	}()
	return client
}

// readsAll is an API that reads whole bodies.
var readsAll = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	fmt.Fprint(w, "served")
})

// serving runs f against a server whose API reads whole bodies.
func serving(t *testing.T, f func(p pipes)) { servingAPI(t, readsAll, "", f) }

func servingAPI(t *testing.T, h http.Handler, token string, f func(p pipes)) {
	synctest.Test(t, func(t *testing.T) {
		p := pipes{make(chan net.Conn), make(chan struct{})}
		s := httpServer(Options{Log: slog.New(slog.DiscardHandler), Services: Services{API: h}, Token: token})
		ended := make(chan error)
		go func() { ended <- s.Serve(newBoundedListener(p, Connections)) }()
		f(p)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("the server ended with %v, want %v", err, http.ErrServerClosed)
		}
		time.Sleep(time.Second) // virtual: net/http lingers for half a second over a connection that it closes
	})
}

const whole = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

// TestNobodyHoldsAConnectionForEver: 370 connections with slow bodies once
// stopped the server.
func TestNobodyHoldsAConnectionForEver(t *testing.T) {
	for about, text := range map[string]string{
		"nothing is sent":             "",
		"half a header":               "POST / HTTP/1.1\r\nHost: loc",
		"a header without its body":   "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n",
		"a body that stops":           "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n{",
		"a chunked body that stops":   "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
		"an answer that nobody reads": "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		serving(t, func(p pipes) {
			slow := make([]net.Conn, 2*Connections)
			for i := range slow {
				slow[i] = p.dial(text)
				defer slow[i].Close()
			}
			synctest.Wait()
			began := time.Now()
			c := p.dial(whole)
			defer c.Close()
			answer, err := io.ReadAll(bufio.NewReader(c))
			waited := time.Since(began)
			if err != nil || !strings.HasSuffix(string(answer), "served") {
				t.Errorf("%s: %d connections, then a request is answered %q, %v", about, len(slow), answer, err)
			}
			// Each connection is taken twice before this request gets one, and
			// net/http lingers for half a second when it closes a connection.
			if most := 2 * (max(readTime, writeTime, idleTime) + time.Second); waited > most {
				t.Errorf("%s: a request waited %s, more than %s", about, waited, most)
			}
		})
	}
}

// TestASlowSenderIsCutOff: the whole request has a deadline, not each byte, so
// slow dripping does not help the sender.
func TestASlowSenderIsCutOff(t *testing.T) {
	serving(t, func(p pipes) {
		c := p.dial("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")
		began := time.Now()
		ended := make(chan struct{})
		defer func() {
			c.Close() // otherwise the sender would wait for ever
			<-ended
		}()
		go func() {
			defer close(ended)
			for {
				if _, err := io.WriteString(c, "x"); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		answer, err := io.ReadAll(c)
		if took := time.Since(began); took > readTime+time.Second || err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400") {
			t.Errorf("after %s: %q, %v", took, answer, err)
		}
	})
}

// TestClientsThatKeepTheirConnectionsLeaveSomeToOthers: clients that sent a request now and then
// kept their connections as long as they wanted, and 256 of them shut everybody else out.
func TestClientsThatKeepTheirConnectionsLeaveSomeToOthers(t *testing.T) {
	const request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
	serving(t, func(p pipes) {
		var keepers sync.WaitGroup
		defer keepers.Wait()
		for range 2 * Connections {
			c := p.dial(request)
			defer c.Close()
			keepers.Go(func() {
				in := bufio.NewReader(c)
				for err := error(nil); err == nil; {
					var res *http.Response
					if res, err = http.ReadResponse(in, nil); err == nil {
						_, err = io.Copy(io.Discard, res.Body)
					}
					if err == nil {
						time.Sleep(idleTime - time.Second)
						_, err = io.WriteString(c, request)
					}
				}
			})
		}
		synctest.Wait()
		c := p.dial(whole)
		defer c.Close()
		if err := c.SetReadDeadline(time.Now().Add(10 * time.Minute)); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(bufio.NewReader(c))
		if err != nil || !strings.HasSuffix(string(answer), "served") {
			t.Errorf("while others keep their connections a request is answered %q, %v", answer, err)
		}
	})
}

// TestClientsThatDripHeadersShutNobodyOut: they come back as soon as they are cut off, so
// that all connections are theirs at any moment.
func TestClientsThatDripHeadersShutNobodyOut(t *testing.T) {
	serving(t, func(p pipes) {
		stop := make(chan struct{})
		var drips sync.WaitGroup
		defer drips.Wait()
		defer close(stop)
		for range 2 * Connections {
			drips.Go(func() {
				for {
					c := p.dial("GET / HTTP/1.1\r\nHost: loc")
					var err error
					for err == nil {
						select {
						case <-stop:
							c.Close()
							return
						case <-time.After(time.Second):
							_, err = io.WriteString(c, "a")
						}
					}
					c.Close()
				}
			})
		}
		// Half a second more than theirs: all of them come at one instant, which takes long on a
		// slow machine.
		time.Sleep(time.Minute + 500*time.Millisecond)
		for range 20 {
			began := time.Now()
			c := p.dial(whole)
			if err := c.SetReadDeadline(began.Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(bufio.NewReader(c))
			c.Close()
			if waited := time.Since(began); err != nil || !strings.HasSuffix(string(answer), "served") || waited > time.Second {
				t.Fatalf("a request is answered %q, %v after %s", answer, err, waited)
			}
		}
	})
}

// TestBodiesThatNeverEndShutNobodyOut: strangers send the header of a request whose body never
// ends, again a second after their connections are closed, to a route that needs no token. A client with the
// token is answered at once, and so is any client where there is none.
func TestBodiesThatNeverEndShutNobodyOut(t *testing.T) {
	const token = "a token of these tests"
	for name, c := range map[string]struct{ token, authorization string }{
		"with a token":    {token, "Authorization: Bearer " + token + "\r\n"},
		"without a token": {},
	} {
		t.Run(name, func(t *testing.T) {
			h := api.New(api.Options{
				Tokens: api.Tokens{Operate: c.token}, Now: time.Now, RequestID: func() string { return "r" }, Log: slog.New(slog.DiscardHandler),
				Routes: []api.Route{
					{Pattern: "POST /sign-in", Handler: readsAll, Public: true},
					{Pattern: "POST /v1/work", Handler: readsAll},
				},
			})
			servingAPI(t, h, c.token, func(p pipes) {
				stop := make(chan struct{})
				var strangers sync.WaitGroup
				defer strangers.Wait()
				defer close(stop)
				for range 300 {
					strangers.Go(func() {
						for {
							c := p.dial("POST /sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\nContent-Type: application/json\r\n\r\nsecret")
							closed := make(chan struct{})
							go func() { _, _ = io.Copy(io.Discard, c); close(closed) }()
							select {
							case <-stop:
								c.Close()
								return
							case <-closed:
								time.Sleep(time.Second)
							}
						}
					})
				}
				time.Sleep(time.Minute + 10*time.Second + 500*time.Millisecond) // in the midst of their bodies
				for range 40 {
					began := time.Now()
					c := p.dial("POST /v1/work HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + c.authorization + "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
					if err := c.SetReadDeadline(began.Add(time.Minute)); err != nil {
						t.Fatal(err)
					}
					answer, err := io.ReadAll(bufio.NewReader(c))
					c.Close()
					if waited := time.Since(began); err != nil || !strings.HasSuffix(string(answer), "served") || waited > time.Second {
						t.Fatalf("a request is answered %q, %v after %s, want served within a second", answer, err, waited)
					}
				}
			})
		})
	}
}

// TestARequestWithATokenIsNotCutOff, however slowly its body comes, while strangers come and go.
func TestARequestWithATokenIsNotCutOff(t *testing.T) {
	const token = "a token of these tests"
	h := api.New(api.Options{
		Tokens: api.Tokens{Operate: token}, Now: time.Now, RequestID: func() string { return "r" }, Log: slog.New(slog.DiscardHandler),
		Routes: []api.Route{{Pattern: "POST /v1/work", Handler: readsAll}},
	})
	servingAPI(t, h, token, func(p pipes) {
		c := p.dial("POST /v1/work HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer " + token + "\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{")
		time.Sleep(time.Second)
		for range 2 * Connections {
			defer p.dial("GET / HTTP/1.1\r\n").Close()
		}
		time.Sleep(time.Second)
		if _, err := io.WriteString(c, "}"); err != nil {
			t.Fatal("the connection was closed:", err)
		}
		if answer, err := io.ReadAll(bufio.NewReader(c)); err != nil || !strings.HasSuffix(string(answer), "served") {
			t.Errorf("a request is answered %q, %v, want served", answer, err)
		}
		c.Close()
	})
}

// TestTheGreediestClientMakesRoom: a client with few connections keeps them while another opens
// more and more. A connection whose request is being answered is never closed.
func TestTheGreediestClientMakesRoom(t *testing.T) {
	const most = 8
	d, enter := entered(t, most)
	modest, served := enter("198.51.100.7:4001"), enter("203.0.113.9:1")
	served.trust()
	for port := range 10 * most {
		enter(fmt.Sprintf("203.0.113.9:%d", 2+port))
	}
	for port := range 3 {
		enter(fmt.Sprintf("[2001:db8::%x]:1", port))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.open[modest] || !d.open[served] || len(d.open) != most-most/4+1 {
		t.Errorf("%d connections; the modest client is in: %t, the one being answered: %t", len(d.open), d.open[modest], d.open[served])
	}
	if n := d.untrusted(false, false); n.network != "203.0.113.9" && n.network != "2001:db8::/64" {
		t.Errorf("%s makes room next", n.network)
	}
}

// TestLocalClientsLeaveRoomForOthers: 300 slow ones, such as a proxy's on the same machine, made
// clients with a token wait for 18 s.
func TestLocalClientsLeaveRoomForOthers(t *testing.T) {
	const most = 8
	d, enter := entered(t, most)
	for port := range 3 * most {
		enter(fmt.Sprintf("127.0.0.1:%d", 1+port))
	}
	if n := len(d.open); n != most-most/4 {
		t.Fatalf("%d connections of local clients that have sent no request, want %d", n, most-most/4)
	}
	other := enter("198.51.100.7:4001")
	enter("127.0.0.1:5000")
	if !d.open[other] {
		t.Error("a local client made another one's connection close")
	}
}

// entered is a listener and a function that connects to it from an address.
func entered(t *testing.T, most int) (d *boundedListener, enter func(from string) (c *boundedConn)) {
	in := make(chan net.Conn)
	d = newBoundedListener(pipes{in, make(chan struct{})}, most)
	return d, func(from string) (c *boundedConn) {
		t.Helper()
		_, server := net.Pipe()
		go func() { in <- addressed{server, from} }()
		a, err := d.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c = a.(*boundedConn)
		c.change(func() { c.read = true })
		return c
	}
}

// addressed is a connection from an address.
type addressed struct {
	net.Conn
	from string
}

func (a addressed) RemoteAddr() net.Addr { return text(a.from) }

type text string

func (text) Network() string  { return "tcp" }
func (t text) String() string { return string(t) }
