package outbound

import (
	"bufio"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"fedpost/internal/activity/outcome"
)

// fakeProxy is a proxy on loopback of either kind, which leads every address to one server.
type fakeProxy struct {
	url   *url.URL
	leads string // the server's address
	// refuses is what the proxy answers in place of a connection: a status line of HTTP, or a
	// reply of SOCKS5; nil: it connects.
	refuses func(address string) string

	mu    sync.Mutex
	asked []string
}

func (p *fakeProxy) addresses() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

func startProxy(t *testing.T, scheme, leads string, refuses func(string) string) *fakeProxy {
	t.Helper()
	p := &fakeProxy{leads: leads, refuses: refuses}
	serve := p.http
	if scheme == "socks5" {
		serve = p.socks
	}
	p.url = &url.URL{Scheme: scheme, User: url.UserPassword("alice", "s:cret"), Host: listen(t, serve)}
	return p
}

func (p *fakeProxy) http(conn net.Conn) {
	in := bufio.NewReader(conn)
	r, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	refusal := p.ask(r.Host)
	switch {
	case r.Method != http.MethodConnect || r.Header.Get("Proxy-Authorization") != "Basic YWxpY2U6czpjcmV0":
		refusal = "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"
	case refusal == "":
		p.carry(conn, "HTTP/1.1 200 Connection established\r\n\r\n")
		return
	}
	_, _ = io.WriteString(conn, refusal)
}

// socks reads what RFC 1928 and RFC 1929 say that a client sends.
func (p *fakeProxy) socks(conn net.Conn) {
	in := bufio.NewReader(conn)
	take := func(n int) []byte {
		b := make([]byte, n)
		_, _ = io.ReadFull(in, b)
		return b
	}
	take(int(take(2)[1]))
	_, _ = conn.Write([]byte{5, 2})
	user := string(take(int(take(2)[1])))
	password := string(take(int(take(1)[0])))
	if user != "alice" || password != "s:cret" {
		_, _ = conn.Write([]byte{1, 1})
		return
	}
	_, _ = conn.Write([]byte{1, 0})
	var host string
	switch take(4)[3] {
	case 1:
		host = netip.AddrFrom4([4]byte(take(4))).String()
	case 3:
		host = string(take(int(take(1)[0])))
	case 4:
		host = netip.AddrFrom16([16]byte(take(16))).String()
	}
	port := strconv.Itoa(int(binary.BigEndian.Uint16(take(2))))
	if refusal := p.ask(net.JoinHostPort(host, port)); refusal != "" {
		_, _ = io.WriteString(conn, refusal)
		return
	}
	p.carry(conn, reply(0))
}

// reply is an answer of SOCKS5.
func reply(code byte) string { return string([]byte{5, code, 0, 1, 0, 0, 0, 0, 0, 0}) }

func (p *fakeProxy) ask(address string) string {
	p.mu.Lock()
	p.asked = append(p.asked, address)
	p.mu.Unlock()
	if p.refuses == nil {
		return ""
	}
	return p.refuses(address)
}

func (p *fakeProxy) carry(conn net.Conn, yes string) {
	server, err := net.Dial("tcp", p.leads)
	if err != nil {
		return
	}
	defer server.Close()
	_, _ = io.WriteString(conn, yes)
	go func() {
		_, _ = io.Copy(server, conn)
		server.Close()
	}()
	_, _ = io.Copy(conn, server)
}

var loopbackOnly = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

func TestAProxyGetsTheAddressThatTheGuardHasLetPass(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	for _, scheme := range []string{"http", "socks5"} {
		t.Run(scheme, func(t *testing.T) {
			p := startProxy(t, scheme, server.Listener.Addr().String(), nil)
			client := trial(t, func(c *Config) {
				c.AllowPrivate, c.Allow, c.Proxy, c.RootCAs = false, loopbackOnly, p.url, roots
				c.Resolver = resolver(t, zone{"example.com": {"10.0.0.1", "127.0.0.77"}})
			})
			for range 2 {
				if a, err := post(t, client, "https://example.com/inbox"); err != nil || a.Status != http.StatusAccepted || a.Proto != "HTTP/2.0" {
					t.Fatalf("want 202 by HTTP/2.0, got %d by %s: %v", a.Status, a.Proto, err)
				}
			}
			if got := fmt.Sprint(p.addresses()); got != "[127.0.0.77:443]" {
				t.Errorf("asked the proxy for %s, want one connection to 127.0.0.77:443", got)
			}
		})
	}
}

func TestNoProxyIsAskedForAnAddressThatIsRefused(t *testing.T) {
	for _, scheme := range []string{"http", "socks5"} {
		p := startProxy(t, scheme, "", nil)
		client := trial(t, func(c *Config) {
			c.AllowPrivate, c.Proxy, c.Onion = false, p.url, nil
			c.Resolver = resolver(t, zone{"private.example": {"10.0.0.1", "::1"}, "metadata.example": {"169.254.169.254"}, "mapped.example": {"::ffff:127.0.0.1"}})
		})
		for host, want := range map[string]outcome.Reason{
			"127.0.0.1": outcome.BlockedAddr, "[::1]": outcome.BlockedAddr, "169.254.169.254": outcome.BlockedAddr,
			"private.example": outcome.DNS, "metadata.example": outcome.DNS, "mapped.example": outcome.DNS,
			"nobody.example": outcome.DNS, "hidden.onion": outcome.BadRequest,
		} {
			if _, err := post(t, client, "https://"+host+"/inbox"); ReasonOf(err) != want || errors.Is(err, ErrStopped) {
				t.Errorf("%s, %s: got %q, want %q: %v", scheme, host, ReasonOf(err), want, err)
			}
		}
		if got := p.addresses(); len(got) > 0 {
			t.Errorf("%s: asked the proxy for %s, want nothing", scheme, got)
		}
	}
}

// TestOnionServicesAreReachedByTheirNamesThroughTheirOwnProxy only, also without TLS.
func TestOnionServicesAreReachedByTheirNamesThroughTheirOwnProxy(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	defer server.Close()
	tor, other := startProxy(t, "socks5", server.Listener.Addr().String(), nil), startProxy(t, "socks5", "", nil)
	client := trial(t, func(c *Config) {
		c.AllowPrivate, c.Proxy, c.Onion = false, other.url, tor.url
		c.Resolver = resolver(t, zone{"hidden.onion": {"1.1.1.1"}})
	})
	if a, err := post(t, client, "http://hidden.onion/inbox"); err != nil || a.Status != http.StatusAccepted {
		t.Errorf("want 202, got %d: %v", a.Status, err)
	}
	if _, err := post(t, client, "http://plain.example/inbox"); ReasonOf(err) != outcome.BadRequest {
		t.Errorf("http of another host: got %v, want a refusal", err)
	}
	if got := fmt.Sprint(tor.addresses(), other.addresses()); got != "[hidden.onion:80] []" {
		t.Errorf("asked the proxies for %s, want [hidden.onion:80] []", got)
	}
}

func TestAFaultOfTheProxyIsNoFaultOfTheHost(t *testing.T) {
	silent := func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }
	closed := listen(t, func(net.Conn) {})
	for name, proxy := range map[string]*url.URL{
		"down":           {Scheme: "http", Host: "127.0.0.1:1"},
		"SOCKS5, down":   {Scheme: "socks5", Host: "127.0.0.1:1"},
		"closes":         {Scheme: "http", Host: closed},
		"SOCKS5, closes": {Scheme: "socks5", Host: closed},
		"no HTTP":        {Scheme: "http", Host: listen(t, say("nonsense\r\n\r\n"))},
		"407":            {Scheme: "http", Host: listen(t, say("HTTP/1.1 407 No\r\n\r\n"))},
		"500":            {Scheme: "http", Host: listen(t, say("HTTP/1.1 500 No\r\n\r\n"))},
		"says more":      {Scheme: "http", Host: listen(t, say("HTTP/1.1 200 Yes\r\n\r\nHTTP/1.1 202 Accepted\r\n\r\n"))},
		"endless":        {Scheme: "http", Host: listen(t, forever("HTTP/1.1 200 Yes\r\n", "A: b\r\n", 0))},
		"silent":         {Scheme: "http", Host: listen(t, silent)},
		"SOCKS5, silent": {Scheme: "socks5", Host: listen(t, silent)},
		"SOCKS5, rules":  startProxy(t, "socks5", "", func(string) string { return reply(2) }).url,
	} {
		t.Run(name, func(t *testing.T) {
			client := trial(t, func(c *Config) { c.Proxy, c.Connect = proxy, 200*time.Millisecond })
			if _, err := post(t, client, "https://1.1.1.1/inbox"); !errors.Is(err, ErrProxy) || !errors.Is(err, ErrStopped) {
				t.Errorf("got %v, want %v", err, ErrProxy)
			}
		})
	}
}

func TestWhatAProxySaysOfAHostCountsAgainstTheHost(t *testing.T) {
	for _, c := range []struct {
		scheme, says string
		want         outcome.Reason
	}{
		{"http", "HTTP/1.1 403 No\r\n\r\n", outcome.OtherTrouble},
		{"http", "HTTP/1.1 404 No\r\n\r\n", outcome.OtherTrouble},
		{"http", "HTTP/1.1 502 No\r\n\r\n", outcome.OtherTrouble},
		{"http", "HTTP/1.1 503 No\r\n\r\n", outcome.OtherTrouble},
		{"http", "HTTP/1.1 504 No\r\n\r\n", outcome.Timeout},
		{"http", "HTTP/1.1 522 No\r\n\r\n", outcome.OtherTrouble},
		{"socks5", reply(1), outcome.OtherTrouble},
		{"socks5", reply(3), outcome.OtherTrouble},
		{"socks5", reply(4), outcome.OtherTrouble},
		{"socks5", reply(5), outcome.ConnRefused},
		{"socks5", reply(6), outcome.Timeout},
		{"socks5", reply(8), outcome.OtherTrouble},
	} {
		p := startProxy(t, c.scheme, "", func(string) string { return c.says })
		client := trial(t, func(c *Config) { c.Proxy = p.url })
		if _, err := post(t, client, "https://1.1.1.1/inbox"); err == nil || errors.Is(err, ErrStopped) || ReasonOf(err) != c.want {
			t.Errorf("%s, %q: got %q, want %q: %v", c.scheme, c.says, ReasonOf(err), c.want, err)
		}
	}
}

// TestAProxyThatIsSilentAboutOneHostOnlyIsNotAtFault: it waits for that host.
func TestAProxyThatIsSilentAboutOneHostOnlyIsNotAtFault(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	defer server.Close()
	var client *Client
	p := startProxy(t, "http", server.Listener.Addr().String(), func(address string) string {
		if address != "1.1.1.1:80" {
			return ""
		}
		if _, err := post(t, client, "http://9.9.9.9/inbox"); err != nil {
			t.Errorf("the other host: %v", err)
		}
		<-t.Context().Done()
		return "HTTP/1.1 504 No\r\n\r\n"
	})
	client = trial(t, func(c *Config) { c.Proxy, c.Connect = p.url, 300*time.Millisecond })
	if _, err := post(t, client, "http://1.1.1.1/inbox"); ReasonOf(err) != outcome.Timeout || errors.Is(err, ErrStopped) {
		t.Errorf("got %v, want a time-out of the host", err)
	}
}
