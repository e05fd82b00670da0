package outbound

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
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
	seconds      *seconds
}

// mostAddresses is how many addresses of a name are tried through a proxy, or where one has failed.
const mostAddresses = 4

// DialContext resolves a name on this machine also for a proxy, and gives the proxy an address that
// the guard has checked: the guard cannot judge what the proxy would resolve.
func (r *route) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	known := r.seconds.of(address)
	if !Onion(host) && r.proxy == nil && len(known.failed) == 0 {
		conn, err := r.direct.DialContext(ctx, network, address)
		return conn, named(host, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.direct.Timeout, ErrTimeout)
	defer cancel()
	if Onion(host) {
		return r.onion.dial(ctx, address)
	}
	found, err := r.allowed(ctx, host)
	for left := min(len(found), mostAddresses); left > 0; left-- {
		addr := known.pick(found)
		conn, e := r.try(ctx, addr, port, left)
		if e == nil {
			if err != nil {
				r.seconds.learn(address, func(w second) second { w.failed = known.failed; return w })
			}
			return conn, nil
		}
		if r.proxy != nil && errors.Is(e, ErrStopped) && !is[*unreachedError](e) {
			return nil, e
		}
		known = known.after(addr, known.classic(addr))
		if err == nil || errors.Is(err, ErrStopped) {
			err = e
		}
	}
	return nil, err
}

// allowed returns the addresses of a host that may be dialled, at least one if it returns no error.
func (r *route) allowed(ctx context.Context, host string) (addrs []netip.Addr, err error) {
	found, err := r.direct.Resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	err = &net.DNSError{Err: "no address", Name: host}
	for _, a := range found {
		if e := r.guard.check(a); e != nil {
			err = named(host, e)
			continue
		}
		addrs = append(addrs, a.Unmap())
	}
	if len(addrs) > 0 {
		err = nil
	}
	return addrs, err
}

// try connects to one address, in its share of the time that is left for several.
func (r *route) try(ctx context.Context, addr netip.Addr, port string, left int) (net.Conn, error) {
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, time.Until(end)/time.Duration(left), ErrTimeout)
		defer cancel()
	}
	to := net.JoinHostPort(addr.String(), port)
	if r.proxy == nil {
		return r.direct.DialContext(ctx, "tcp", to)
	}
	conn, err := r.proxy.dial(ctx, to)
	if socket, ok := conn.(*net.TCPConn); ok {
		return tunnelled{socket, net.TCPAddrFromAddrPort(netip.AddrPortFrom(addr, 0))}, nil
	}
	return conn, err
}

// tunnelled is a connection through a proxy to the address that RemoteAddr returns, without its port.
type tunnelled struct {
	*net.TCPConn
	to net.Addr
}

func (t tunnelled) RemoteAddr() net.Addr { return t.to }

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

// dial connects to an address. Whose failure it is:
//
//	what happens                              at fault       another address is tried
//	the proxy is not reached, hangs up,       the proxy      no
//	  speaks nonsense, wants a password (407)
//	silence                                   the proxy, or  yes
//	                                            the address if it has made another
//	                                            connection meanwhile
//	CONNECT: 403, 404, 451, 5xx but 500 and   the address    yes
//	  501; SOCKS5: 1, 3, 4, 5, 6, 8
//	any other answer: it may be about the     the proxy      yes
//	  address all the same
//
// 403, SOCKS5's 1 and 8, and most of the others are also what a proxy without IPv6 says of an IPv6
// address. A failure of the proxy's is an ErrProxy, which says nothing about the host.
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
	case ctx.Err() != nil, errors.Is(err, os.ErrDeadlineExceeded): // which may come first
		as := ErrProxy
		if made != t.made.Load() {
			as = ErrTimeout
		}
		err = &unreachedError{"did not connect in time", as}
	default:
		err = fmt.Errorf("%w: %w", ErrProxy, err)
	}
	_ = conn.Close()
	return nil, err
}

// unreachedError is what a proxy says of an address, and the error of a direct connection that
// means the same; or ErrProxy.
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
	case a.StatusCode == http.StatusProxyAuthRequired:
		return errors.New("it wants a user and a password: 407")
	case a.StatusCode/100 != 2:
		return &unreachedError{strings.TrimSpace(fmt.Sprintf("answered %d %s", a.StatusCode, http.StatusText(a.StatusCode))), connectAnswer(a.StatusCode)}
	case in.Buffered() > 0:
		return errors.New("it sent more than its answer")
	case !stop():
		return context.Cause(ctx)
	}
	return nil
}

// connectAnswer is what an answer to CONNECT means: see tunnel.dial.
func connectAnswer(status int) error {
	switch status {
	case http.StatusGatewayTimeout:
		return ErrTimeout
	case http.StatusForbidden, http.StatusNotFound, http.StatusUnavailableForLegalReasons:
		return syscall.EHOSTUNREACH
	}
	if status > http.StatusNotImplemented {
		return syscall.EHOSTUNREACH
	}
	return ErrProxy
}

// socksReplies are texts of golang.org/x/net for what a SOCKS5 proxy says of a host (RFC 1928,
// section 6); its errors have no types.
var socksReplies = map[string]error{
	"network unreachable": syscall.ENETUNREACH, "host unreachable": syscall.EHOSTUNREACH,
	"connection refused": syscall.ECONNREFUSED, "TTL expired": ErrTimeout,
	"general SOCKS server failure": syscall.EHOSTUNREACH, "address type not supported": syscall.EAFNOSUPPORT,
	"connection not allowed by ruleset": ErrProxy,
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
