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
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
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
				r.seconds.learn(address, func(w *second) { w.failed = known.failed })
			}
			return conn, nil
		}
		if r.proxy != nil && errors.Is(e, ErrStopped) && !is[*unreachedError](e) {
			return nil, e
		}
		known.fail(addr, known.classic(addr))
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
		return tunnelled{socket, &net.TCPAddr{IP: addr.AsSlice()}}, nil
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

// socksReplies is what a SOCKS5 proxy says of an address (RFC 1928, section 6): see tunnel.dial.
var socksReplies = [...]unreachedError{
	1: {"says: general failure", syscall.EHOSTUNREACH},
	2: {"says: not allowed by its rules", ErrProxy},
	3: {"says: network unreachable", syscall.ENETUNREACH},
	4: {"says: host unreachable", syscall.EHOSTUNREACH},
	5: {"says: connection refused", syscall.ECONNREFUSED},
	6: {"says: TTL expired", ErrTimeout},
	7: {"says: command not supported", ErrProxy},
	8: {"says: address type not supported", syscall.EAFNOSUPPORT},
}

// socks asks by RFC 1928, and logs in by RFC 1929.
func (t *tunnel) socks(ctx context.Context, conn net.Conn, address string) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	const version, none, login, connect = 5, 0, 2, 1
	hello := []byte{version, 1, none}
	if t.url.User != nil {
		hello = []byte{version, 2, none, login}
	}
	said, err := talk(conn, hello, 2)
	if err != nil {
		return err
	}
	switch method := said[1]; {
	case said[0] != version:
		return errors.New("it does not speak SOCKS5")
	case method == login && t.url.User != nil:
		password, _ := t.url.User.Password()
		if max(len(t.url.User.Username()), len(password)) > 255 {
			return errors.New("its user or password is longer than 255 bytes")
		}
		if said, err = talk(conn, text(text([]byte{1}, t.url.User.Username()), password), 2); err != nil {
			return err
		}
		if said[1] != 0 {
			return errors.New("it refuses the user and the password")
		}
	case method != none:
		return errors.New("it wants another way to log in")
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return err
	}
	ask := []byte{version, connect, 0}
	switch addr, err := netip.ParseAddr(host); {
	case err != nil:
		ask = text(append(ask, 3), host)
	case addr.Is4():
		ask = append(append(ask, 1), addr.AsSlice()...)
	default:
		ask = append(append(ask, 4), addr.AsSlice()...)
	}
	said, err = talk(conn, append(ask, byte(number>>8), byte(number)), 4)
	if err != nil {
		return err
	}
	if reply := int(said[1]); reply > 0 && reply < len(socksReplies) {
		return &socksReplies[reply]
	} else if said[0] != version || reply > 0 {
		return &unreachedError{fmt.Sprintf("answered %d", reply), ErrProxy}
	}
	var rest int // of the reply is an address
	switch said[3] {
	case 1:
		rest = 4
	case 3:
		length, err := talk(conn, nil, 1)
		if err != nil {
			return err
		}
		rest = int(length[0])
	case 4:
		rest = 16
	default:
		return errors.New("it answered with an address of an unknown kind")
	}
	if _, err := talk(conn, nil, rest+2); err != nil {
		return err
	}
	if !stop() {
		return context.Cause(ctx)
	}
	return nil
}

// text appends a text after its length. A name has at most 253 bytes.
func text(b []byte, s string) []byte {
	return append(append(b, byte(len(s))), s...)
}

// talk sends a message and reads the beginning of the answer.
func talk(conn net.Conn, message []byte, answer int) ([]byte, error) {
	if _, err := conn.Write(message); err != nil {
		return nil, err
	}
	said := make([]byte, answer)
	_, err := io.ReadFull(conn, said)
	return said, err
}
