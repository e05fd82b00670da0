package local

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/api"
)

// TestAConnectionWaitsWhileAllOthersAreTrusted.
func TestAConnectionWaitsWhileAllOthersAreTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := make(chan net.Conn)
		d := newBoundedListener(pipes{in, make(chan struct{})}, 1)
		let := make(chan *boundedConn)
		go func() {
			for {
				c, err := d.Accept()
				if err != nil {
					close(let)
					return
				}
				let <- c.(*boundedConn)
			}
		}()
		_, one := net.Pipe()
		in <- one
		first := <-let
		first.trust()
		_, two := net.Pipe()
		in <- two
		synctest.Wait()
		select {
		case <-let:
			t.Error("there are two, of one at most")
		default:
		}
		if err := first.Close(); err != nil {
			t.Error(err)
		}
		second := <-let
		second.trust()
		_, three := net.Pipe()
		in <- three
		synctest.Wait()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if g, open := <-let; open {
			t.Errorf("a closed listener lets %v in", g)
		}
	})
}

// TestAConnectionIsNotClosedBeforeTheServerReadsIt: two threads that connected as fast as they
// could made one of six connections of a client with a token close before its request was read.
func TestAConnectionIsNotClosedBeforeTheServerReadsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := make(chan net.Conn)
		d := newBoundedListener(pipes{in, make(chan struct{})}, 1)
		accepted := make(chan *boundedConn)
		connect := func() {
			_, server := net.Pipe()
			in <- server
		}
		go func() {
			for {
				c, err := d.Accept()
				if err != nil {
					close(accepted)
					return
				}
				accepted <- c.(*boundedConn)
			}
		}()
		connect()
		first := <-accepted
		connect()
		synctest.Wait()
		select {
		case <-accepted:
			t.Fatal("a connection was closed for another one before it was read")
		default:
		}
		read := make(chan error)
		go func() {
			_, err := first.Read(make([]byte, 1))
			read <- err
		}()
		<-accepted
		if err := <-read; err == nil {
			t.Error("the first connection is open, want one at most")
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		<-accepted
	})
}

// TestARequestWhoseConnectionIsClosedIsNotBegun: its client gets no answer.
func TestARequestWhoseConnectionIsClosedIsNotBegun(t *testing.T) {
	const token = "a token of these tests"
	for _, set := range []string{token, ""} {
		d, enter := entered(t, 8)
		for _, closed := range []bool{false, true} {
			c := enter("127.0.0.1:1")
			if closed {
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
			}
			var got error
			s := trusting(&http.Server{Handler: api.New(api.Options{
				Tokens: api.Tokens{Operate: set}, Now: time.Now, RequestID: func() string { return "r" }, Log: slog.New(slog.DiscardHandler),
				Routes: []api.Route{{Pattern: "GET /v1/work", Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Context().Err() })}},
			})}, set != "")
			r := httptest.NewRequestWithContext(s.ConnContext(t.Context(), c), "GET", "/v1/work", http.NoBody)
			r.Header.Set("Authorization", "Bearer "+token)
			s.Handler.ServeHTTP(httptest.NewRecorder(), r)
			if (got != nil) != closed {
				t.Errorf("token %q, connection closed: %t: the request's context has ended with %v", set, closed, got)
			}
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestAStopDoesNotWaitForUnusedConnections: net/http waited 5 s for them.
func TestAStopDoesNotWaitForUnusedConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipes{make(chan net.Conn), make(chan struct{})}
		s := httpServer(Options{Log: slog.New(slog.DiscardHandler), Services: Services{API: readsAll}})
		ended := make(chan error)
		go func() { ended <- s.Serve(newBoundedListener(p, Connections)) }()
		defer p.dial("").Close()
		defer p.dial("GET / HTTP/1.1\r\nHost: loc").Close()
		synctest.Wait()
		began := time.Now()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the stop took %s, want a second at most", took)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("the server ended with %v, want %v", err, http.ErrServerClosed)
		}
		time.Sleep(time.Second) // virtual: net/http lingers for half a second over a connection that it closes
	})
}
