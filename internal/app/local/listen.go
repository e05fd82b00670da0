package local

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"fedpost/internal/api/problem"
)

type ListenConfig struct {
	// Listen is host:port, or "unix:" and the path of a socket.
	Listen string
	// Cert and Key are files with a certificate chain and its private key, PEM, for TLS;
	// both empty: none. They are read again when they change.
	Cert, Key string
}

// Errors of a ListenConfig that cannot be used as it is.
var (
	// ErrNotLoopback: an API without authentication must not listen on a network.
	ErrNotLoopback = errors.New("listening on an address that is not loopback needs authentication")
	// ErrSocketTaken: a process listens on the socket, or the path is another file.
	ErrSocketTaken = errors.New("the socket's path is taken")
)

type AddressError struct{ error }

// Unwrap returns the error that says why.
func (e AddressError) Unwrap() error { return e.error }

const unixPrefix = "unix:"

// SocketPath returns the path of a Unix socket that an address names, if it names one.
func SocketPath(address string) (path string, ok bool) { return strings.CutPrefix(address, unixPrefix) }

// opened is an open listener with bounded connections.
type opened struct {
	net.Listener
	url string // what people and clients call it
}

func (p ListenConfig) open(log *slog.Logger) (o opened, err error) {
	path, socket := SocketPath(p.Listen)
	switch {
	case (p.Cert == "") != (p.Key == ""):
		return o, errors.New("TLS needs both files, the certificate's and the private key's")
	case p.Cert != "" && socket:
		return o, AddressError{fmt.Errorf("listen on %s: a Unix socket has no TLS; leave out the certificate, or listen on an address", p.Listen)}
	case socket:
		l, err := listenSocket(path)
		if err != nil {
			return o, err
		}
		return opened{withBounds(l), p.Listen}, nil
	}
	var pair *certificate
	if p.Cert != "" {
		if pair, err = newCertificate(p.Cert, p.Key, log); err != nil {
			return o, err
		}
	}
	l, err := net.Listen("tcp", p.Listen)
	if err != nil {
		return o, cannotListen(p.Listen, err)
	}
	if pair == nil {
		return opened{withBounds(l), "http://" + l.Addr().String()}, nil
	}
	return opened{securing{withBounds(l), pair.serverTLS(), log}, "https://" + l.Addr().String()}, nil
}

// check refuses an address without a port.
func (p ListenConfig) check() error {
	if _, socket := SocketPath(p.Listen); socket {
		return nil
	}
	if _, _, err := net.SplitHostPort(p.Listen); err != nil {
		return AddressError{fmt.Errorf("listen on %q: give HOST:PORT, such as 127.0.0.1:8080, or unix:PATH: %w", p.Listen, err)}
	}
	return nil
}

// private reports whether only this machine can reach the listener.
func (p ListenConfig) private() bool {
	_, socket := SocketPath(p.Listen)
	return socket || loopbackName(p.Listen)
}

// socketMode lets the owner and the group connect: a reverse proxy joins the group.
const socketMode = 0o660

// listenSocket listens on a Unix socket. It replaces a socket that a killed process has left.
func listenSocket(path string) (net.Listener, error) {
	if err := dropStale(path); err != nil {
		return nil, err
	}
	l, err := bindSocket(path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s%s: %w", unixPrefix, path, err)
	}
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s%s: %w", unixPrefix, path, err), l.Close())
	}
	return l, nil
}

// dialTime is how long dropStale tries to connect to a socket.
const dialTime = 5 * time.Second

func dropStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("listen on %s%s: %w", unixPrefix, path, err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%w: %s is there and is no socket; choose another path", ErrSocketTaken, path)
	}
	c, err := net.DialTimeout("unix", path, dialTime)
	if err == nil {
		return errors.Join(fmt.Errorf("%w: another process listens on %s", ErrSocketTaken, path), c.Close())
	}
	if !refused(err) {
		return fmt.Errorf("%w: %s is a socket, and it is not known whether a process listens on it: %w", ErrSocketTaken, path, err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove the socket that an ended process has left: %w", err)
	}
	return nil
}

// serverTLS are the TLS settings of the API. HTTP/1.1 only: boundedListener expects one request at
// a time on a connection.
func (c *certificate) serverTLS() *tls.Config {
	return &tls.Config{GetCertificate: c.get, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
}

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
// page could let its server's name resolve to 127.0.0.1, and read and write here. The browser sends
// that name as Host.
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
