package outbound

import (
	"bufio"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/proxy"
)

// ErrProxy says that the operator's own proxy failed, which says nothing about a host.
// ErrProxy wraps ErrStopped.
var ErrProxy = fmt.Errorf("%w: the outbound proxy failed", ErrStopped)

// Onion reports whether a host is an onion service, which only Tor's SOCKS5 proxy reaches, and
// whose name must not be looked up (RFC 7686).
func Onion(host string) bool { return strings.HasSuffix(host, ".onion") }

// route makes connections, directly or through a proxy.
type route struct {
	direct       *net.Dialer // with the guard
	guard        guard
	proxy, onion *tunnel // nil: none
}

// mostAddresses is how many addresses of a name are tried through a proxy.
const mostAddresses = 4

// DialContext resolves a name on this machine also for a proxy, and gives the proxy an address that
// the guard has checked: the guard cannot judge what the proxy would resolve.
func (r *route) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if !Onion(host) && r.proxy == nil {
		return r.direct.DialContext(ctx, network, address)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.direct.Timeout, ErrTimeout)
	defer cancel()
	if Onion(host) {
		return r.onion.dial(ctx, address)
	}
	found, err := r.direct.Resolver.LookupNetIP(ctx, "ip", host)
	for _, a := range found[:min(len(found), mostAddresses)] {
		conn, e := net.Conn(nil), r.guard.check(a)
		if e == nil {
			conn, e = r.proxy.dial(ctx, net.JoinHostPort(a.Unmap().String(), port))
		}
		if e == nil || errors.Is(e, ErrStopped) {
			return conn, e
		}
		err = cmp.Or(err, e)
	}
	return nil, err
}

// tunnel makes connections through a proxy: one for HTTP by CONNECT (RFC 9110, section 9.3.6),
// or one of SOCKS5 (RFC 1928).
type tunnel struct {
	url    *url.URL
	dialer net.Dialer // to the proxy, whose address is the operator's: no guard
	made   atomic.Int64
}

func newTunnel(u *url.URL) *tunnel {
	if u == nil {
		return nil
	}
	return &tunnel{url: u}
}

// dial connects to an address. A failure is the proxy's (ErrProxy), unless the proxy says that it
// did not reach the address, or is silent but has made another connection meanwhile.
func (t *tunnel) dial(ctx context.Context, address string) (net.Conn, error) {
	made := t.made.Load()
	conn, err := t.dialer.DialContext(ctx, "tcp", t.url.Host)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProxy, err)
	}
	ask := t.connect
	if t.url.Scheme != "http" {
		ask = t.socks
	}
	err = ask(ctx, conn, address)
	switch {
	case err == nil:
		t.made.Add(1)
		return conn, nil
	case is[*unreachedError](err):
	case ctx.Err() != nil && made != t.made.Load():
		err = &unreachedError{"did not connect in time", ErrTimeout}
	default:
		err = fmt.Errorf("%w: %w", ErrProxy, err)
	}
	_ = conn.Close()
	return nil, err
}

// unreachedError is what a proxy says of a host, and the error of a direct connection that
// means the same.
type unreachedError struct {
	said string
	as   error
}

func (e *unreachedError) Error() string { return "the outbound proxy " + e.said }
func (e *unreachedError) Unwrap() error { return e.as }

func (t *tunnel) connect(ctx context.Context, conn net.Conn, address string) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	r := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{"User-Agent": {""}}}
	if user := t.url.User; user != nil {
		password, _ := user.Password()
		r.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	if err := r.Write(conn); err != nil {
		return err
	}
	in := bufio.NewReader(io.LimitReader(conn, maxHeader))
	a, err := http.ReadResponse(in, r)
	switch {
	case err != nil:
		return err
	case a.StatusCode == http.StatusBadGateway, a.StatusCode == http.StatusServiceUnavailable:
		return &unreachedError{"answered " + http.StatusText(a.StatusCode), syscall.EHOSTUNREACH}
	case a.StatusCode == http.StatusGatewayTimeout:
		return &unreachedError{"answered " + http.StatusText(a.StatusCode), ErrTimeout}
	case a.StatusCode/100 != 2:
		return fmt.Errorf("it answered %d %s", a.StatusCode, http.StatusText(a.StatusCode))
	case in.Buffered() > 0:
		return errors.New("it sent more than its answer")
	case !stop():
		return context.Cause(ctx)
	}
	return nil
}

// socksReplies are texts of golang.org/x/net for what a SOCKS5 proxy says of a host (RFC 1928,
// section 6); its errors have no types.
var socksReplies = map[string]error{
	"network unreachable": syscall.ENETUNREACH, "host unreachable": syscall.EHOSTUNREACH,
	"connection refused": syscall.ECONNREFUSED, "TTL expired": ErrTimeout,
}

func (t *tunnel) socks(ctx context.Context, conn net.Conn, address string) error {
	var auth *proxy.Auth
	if user := t.url.User; user != nil {
		password, _ := user.Password()
		auth = &proxy.Auth{User: user.Username(), Password: password}
	}
	d, err := proxy.SOCKS5("tcp", t.url.Host, auth, fixedDialer{conn})
	if err != nil {
		return err
	}
	_, err = d.(proxy.ContextDialer).DialContext(ctx, "tcp", address)
	if err != nil {
		for reply, as := range socksReplies {
			if strings.HasSuffix(err.Error(), "unknown error "+reply) {
				return &unreachedError{"says: " + reply, as}
			}
		}
	}
	return err
}

// fixedDialer is a dialer that returns a given connection. That is needed later: the connection that
// golang.org/x/net returns hides the socket.
type fixedDialer struct{ net.Conn }

func (d fixedDialer) Dial(string, string) (net.Conn, error) { return d.Conn, nil }

func (d fixedDialer) DialContext(context.Context, string, string) (net.Conn, error) {
	return d.Conn, nil
}
