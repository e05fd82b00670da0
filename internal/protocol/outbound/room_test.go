package outbound

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"syscall"
	"testing"
)

type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

// TestALimitOfThisMachineIsNotTheHostsFault: a process that has no file left for
// a connection must not hold that against the server it wanted to talk to.
func TestALimitOfThisMachineIsNotTheHostsFault(t *testing.T) {
	dial := func(errno syscall.Errno) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", errno)}
	}
	for _, c := range []struct {
		err  error
		ours bool
	}{
		{dial(syscall.EMFILE), true},
		{dial(syscall.ENFILE), true},
		{dial(syscall.EADDRNOTAVAIL), true},
		{dial(syscall.ENOBUFS), true},
		{dial(syscall.ENOMEM), true},
		{&net.DNSError{Err: "dial udp 127.0.0.53:53: socket: " + syscall.EMFILE.Error(), Name: "a.example"}, true},
		{dial(syscall.ECONNREFUSED), false},
		{dial(syscall.EHOSTUNREACH), false},
		{&net.DNSError{Err: "no such host", Name: "a.example", IsNotFound: true}, false},
	} {
		client, err := New(Config{UserAgent: "fedpost/test", Transport: failing{c.err}})
		if err != nil {
			t.Fatal(err)
		}
		r, err := NewRequest(t.Context(), http.MethodPost, "https://a.example/inbox", "x")
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Do(t.Context(), r)
		if errors.Is(err, ErrNoRoom) != c.ours || errors.Is(err, ErrStopped) != c.ours {
			t.Errorf("%v: %v", c.err, err)
		}
	}
}

// TestAHostThatThisMachineHasNoIPv6ForIsUnreachable: where IPv6 is disabled, as in containers, connecting
// to an IPv6 address fails as if no port were free. If that counted as a fault of this machine, such
// a host would be tried without end.
func TestAHostThatThisMachineHasNoIPv6ForIsUnreachable(t *testing.T) {
	for address, ours := range map[string]bool{"[2001:db8::1]:443": false, "192.0.2.1:443": true, "[::ffff:192.0.2.1]:443": true} {
		err := error(&net.OpError{
			Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address)),
			Err: os.NewSyscallError("connect", syscall.EADDRNOTAVAIL),
		})
		_, err = post(t, trial(t, func(c *Config) { c.Transport = failing{err} }), "https://a.example/inbox")
		if o := Failure(err); errors.Is(err, ErrStopped) != ours || o.HostFault() == ours {
			t.Errorf("%s: %v (%+v)", address, err, o)
		}
	}
}
