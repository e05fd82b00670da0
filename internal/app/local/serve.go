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

// Bounds of the HTTP server, for clients that send or read slowly, or do nothing.
const (
	// Connections is how many connections are open at once, at most; see boundedListener and clients.
	Connections = 256
	// headerTime is how long a request's header may take, readTime header and body
	// together: a request of 6 MB at 2.5 Mbit/s.
	headerTime = 5 * time.Second
	readTime   = 20 * time.Second
	// RequestTime is how long a request may take, as on Lambda. It is shorter than
	// dedup.LeaseTime: when another caller takes over a lapsed lease, the first request has
	// ended.
	RequestTime = 29 * time.Second
	// writeTime is RequestTime plus the time for the client to read the answer.
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

// ServeLoopback serves a handler on a loopback address until ctx ends, with the bounds of a
// Server. It calls ready with the address once it listens.
func ServeLoopback(ctx context.Context, listen string, h http.Handler, log *slog.Logger, ready func(url string) error) error {
	if _, _, err := net.SplitHostPort(listen); err != nil || !loopbackName(listen) {
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
	// The requests under way only read: none has to be finished.
	return errors.Join(err, s.Close())
}

// withBounds limits the open connections of l, by the limit of open files.
func withBounds(l net.Listener) net.Listener { return newBoundedListener(l, clients(Files())) }

func inTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), RequestTime)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// loopbackOnly refuses requests whose Host is not a loopback name, against DNS rebinding: a web
// page whose server's name resolves to 127.0.0.1 could read and write here, but the browser
// sends that name as Host.
func loopbackOnly(next http.Handler, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if loopbackName(r.Host) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Connection", "close")
		p := problem.New(http.StatusMisdirectedRequest,
			"Without FEDPOST_API_TOKEN only requests to localhost, 127.0.0.1 or [::1] are answered, because any web page could send others. Set a token, or use one of these names.")
		log.WarnContext(r.Context(), "refused a request to a name that is not loopback", "host", fmt.Sprintf("%.100q", r.Host), "client", r.RemoteAddr)
		if err := p.Write(w); err != nil {
			log.InfoContext(r.Context(), "the answer to a refused request was not sent", "error", err)
		}
	})
}

// loopbackName reports whether a host, with or without a port, is a loopback address, or
// localhost, which browsers resolve themselves (RFC 6761, section 6.3).
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

func cannotListen(at string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("listen on %s: something listens there already: stop it, or choose another address with --listen (%w)", at, err)
	}
	return fmt.Errorf("listen on %s: %w", at, err)
}
