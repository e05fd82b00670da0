package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"fedpost/internal/api/problem"
)

// Bounds of the HTTP server. They hold whatever a client does: a client that
// sends slowly, reads slowly or does nothing loses its connection in time.
const (
	// Connections is how many connections are open at once, at most; see boundedListener and guests.
	Connections = 256
	// headerTime is how long a request's header may take, readTime header and body
	// together: a request of 6 MB at 2.5 Mbit/s.
	headerTime = 5 * time.Second
	readTime   = 20 * time.Second
	// RequestTime is how long a request may take, as on Lambda. It is shorter
	// than the lease on a deduplication key (dedup.LeaseTime), which begins
	// later: when another caller takes over a lapsed lease, the first request has
	// ended.
	RequestTime = 29 * time.Second
	// writeTime is RequestTime plus the time that a client has to read the
	// answer.
	writeTime = RequestTime + 16*time.Second
	idleTime  = 30 * time.Second
	maxHeader = 64 << 10
)

// httpServer serves the API. Without a token it answers only requests to a loopback name.
func httpServer(o Options) *http.Server {
	h := inTime(o.Services.API)
	if o.Token == "" {
		h = loopbackOnly(h, o.Log)
	}
	return trusting(&http.Server{
		Handler: h, ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
		ReadHeaderTimeout: headerTime, ReadTimeout: readTime, WriteTimeout: writeTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
	}, o.Token != "")
}

// ServeLoopback serves a handler for this machine until ctx ends, with the bounds of a
// Server. It answers loopback names only. ready is called with the address once requests
// are served.
func ServeLoopback(ctx context.Context, listen string, h http.Handler, log *slog.Logger, ready func(url string) error) error {
	if !loopback(listen) {
		return AddressError{fmt.Errorf("listen on %s: only loopback addresses are served, such as 127.0.0.1:8081", listen)}
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return cannotListen(listen, err)
	}
	s := httpServer(Options{Services: Services{API: h}, Log: log})
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(withBounds(l)) }()
	err = ready("http://" + l.Addr().String())
	if err == nil {
		select {
		case err := <-failed:
			return fmt.Errorf("serve %s: %w", listen, err)
		case <-ctx.Done():
		}
	}
	// What is under way are requests of a reader; none has to be finished.
	return errors.Join(err, s.Close())
}

// withBounds is l limited to as many open connections as this process has files for.
func withBounds(l net.Listener) net.Listener { return newBoundedListener(l, guests(Files())) }

// inTime gives each request a deadline.
func inTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), RequestTime)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// loopbackOnly refuses requests whose Host is not a name of this machine. A web
// page can let the name of its own server resolve to 127.0.0.1 (DNS rebinding).
// The browser then lets the page read and write here, but sends the page's server
// name as Host.
func loopbackOnly(next http.Handler, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if loopbackName(r.Host) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Connection", "close")
		p := problem.New(http.StatusMisdirectedRequest,
			"Without FEDPOST_API_TOKEN only requests to localhost, 127.0.0.1 or [::1] are answered: any web page could send others. Set a token, or use one of these names.")
		log.WarnContext(r.Context(), "refused a request to a name that is not loopback", "host", fmt.Sprintf("%.100q", r.Host), "client", r.RemoteAddr)
		if err := p.Write(w); err != nil {
			log.InfoContext(r.Context(), "answer to a refused request", "error", err)
		}
	})
}

// loopbackName reports whether a Host header can name this machine only: a
// loopback address, or localhost, which browsers resolve themselves (RFC 6761,
// section 6.3).
func loopbackName(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.IsLoopback()
}

// cannotListen says why nobody can be served at an address, and what to do.
func cannotListen(at string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("listen on %s: something listens there already: stop it, or choose another address with --listen (%w)", at, err)
	}
	return fmt.Errorf("listen on %s: %w", at, err)
}
