package outbound

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestAProxyThatDoesNotReachAnAddressIsAskedForTheNext at once, and first the next time.
func TestAProxyThatDoesNotReachAnAddressIsAskedForTheNext(t *testing.T) {
	good := httptest.NewServer(http.HandlerFunc(accept))
	t.Cleanup(good.Close)
	for name, c := range map[string]struct {
		scheme string
		says   string // "": nothing
	}{
		"400": {"http", "HTTP/1.1 400 No\r\n\r\n"}, "403": {"http", "HTTP/1.1 403 No\r\n\r\n"}, "500": {"http", "HTTP/1.1 500 No\r\n\r\n"},
		"502": {"http", "HTTP/1.1 502 No\r\n\r\n"}, "504": {"http", "HTTP/1.1 504 No\r\n\r\n"}, "silence": {"http", ""},
		"SOCKS5 1": {"socks5", reply(1)}, "SOCKS5 2": {"socks5", reply(2)}, "SOCKS5 5": {"socks5", reply(5)},
		"SOCKS5 8": {"socks5", reply(8)}, "SOCKS5, silence": {"socks5", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startProxy(t, c.scheme, good.Listener.Addr().String(), func(address string) string {
				switch {
				case address == "[2a0f::9]:80":
					return ""
				case c.says == "":
					<-t.Context().Done()
				}
				return c.says
			})
			client := trial(t, func(cfg *Config) {
				cfg.Proxy, cfg.AllowHTTP, cfg.Connect = p.url, true, 6*time.Second
				cfg.Resolver = directory(zone{"a.example": {"9.9.9.1", "9.9.9.2", "9.9.9.3", "9.9.9.4", "9.9.9.5", "2a0f::9"}})
			})
			for range 2 {
				if a, err := post(t, client, "http://a.example/inbox"); err != nil || a.Status != http.StatusAccepted {
					t.Fatalf("%d, %v", a.Status, err)
				}
				client.transport.(*pool).closeIdle()
			}
			asked := p.addresses()
			if last := len(asked) - 1; last > 2 || last < 1 || asked[last] != "[2a0f::9]:80" || asked[last-1] != "[2a0f::9]:80" {
				t.Errorf("asked for %v, want one address of the other family after one at most, and then that first", asked)
			}
		})
	}
}

// TestSOCKS5IsSpokenByTheBook: with each kind of login and of address in the reply, whose bytes are read
// and no more; what is not SOCKS5 is the proxy's fault.
func TestSOCKS5IsSpokenByTheBook(t *testing.T) {
	login := url.UserPassword("alice", "s:cret")
	const hello, helloLogin, asked = "\x05\x01\x00", "\x05\x02\x00\x02", "\x05\x01\x00\x01\x01\x01\x01\x01\x00\x50"
	const answer = "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
	for name, c := range map[string]struct {
		user  *url.Userinfo
		turns []string // of ours and of the proxy's
		ok    bool
	}{
		"no login":            {nil, []string{hello, "\x05\x00", asked, "\x05\x00\x00\x01abcdef"}, true},
		"login not wanted":    {login, []string{helloLogin, "\x05\x00", asked, "\x05\x00\x00\x01abcdef"}, true},
		"login":               {login, []string{helloLogin, "\x05\x02", "\x01\x05alice\x06s:cret", "\x01\x00", asked, "\x05\x00\x00\x04abcdefghijklmnopqr"}, true},
		"name in the reply":   {nil, []string{hello, "\x05\x00", asked, "\x05\x00\x00\x03\x03abcde"}, true},
		"login refused":       {login, []string{helloLogin, "\x05\x02", "\x01\x05alice\x06s:cret", "\x01\x01"}, false},
		"login not expected":  {nil, []string{hello, "\x05\x02"}, false},
		"no method":           {nil, []string{hello, "\x05\xff"}, false},
		"SOCKS4":              {nil, []string{hello, "\x04\x00"}, false},
		"unknown reply":       {nil, []string{hello, "\x05\x00", asked, "\x05\x63\x00\x01"}, false},
		"unknown address":     {nil, []string{hello, "\x05\x00", asked, "\x05\x00\x00\x02"}, false},
		"other version later": {nil, []string{hello, "\x05\x00", asked, "\x04\x00\x00\x01"}, false},
		"cut off":             {nil, []string{hello, "\x05\x00", asked, "\x05\x00\x00\x03"}, false},
		"long user":           {url.UserPassword(strings.Repeat("x", 256), ""), []string{helloLogin, "\x05\x02"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			address := listen(t, func(conn net.Conn) {
				for i := 0; i < len(c.turns); i += 2 {
					got := make([]byte, len(c.turns[i]))
					if _, err := io.ReadFull(conn, got); err != nil || string(got) != c.turns[i] {
						t.Errorf("got %q, %v, want %q", got, err, c.turns[i])
					}
					_, _ = io.WriteString(conn, c.turns[i+1])
				}
				if c.ok {
					say(answer)(conn)
				}
			})
			client := trial(t, func(cfg *Config) { cfg.Proxy = &url.URL{Scheme: "socks5", User: c.user, Host: address} })
			a, err := post(t, client, "http://1.1.1.1/inbox")
			if c.ok && (err != nil || a.Status != http.StatusAccepted) || !c.ok && !errors.Is(err, ErrProxy) {
				t.Errorf("%d, %v", a.Status, err)
			}
		})
	}
}
