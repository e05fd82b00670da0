package outbound

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fedpost/internal/activity/outcome"
)

// TestNamesAreJudgedByWhereTheyLead asks a real DNS server for names that look
// public.
func TestNamesAreJudgedByWhereTheyLead(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusAccepted)
	}))
	defer server.Close()
	port := server.URL[strings.LastIndex(server.URL, ":"):]
	z := zone{
		"loopback.example":    {"127.0.0.1"},
		"loopback6.example":   {"::1"},
		"private.example":     {"10.0.0.1", "192.168.1.1"},
		"mapped.example":      {"::ffff:127.0.0.1"},
		"metadata.example":    {"169.254.169.254"},
		"metadata6.example":   {"fd00:ec2::254"},
		"sixtofour.example":   {"2002:7f00:1::"},
		"nat64.example":       {"64:ff9b::7f00:1"},
		"unspecified.example": {"0.0.0.0", "::"},
		"empty.example":       nil,
		"two.example":         {"10.0.0.1", "127.0.0.1"},
	}
	for _, c := range []struct {
		host   string
		change func(*Config)
		want   outcome.Reason
	}{
		{"loopback.example", nil, outcome.DNS},
		{"loopback6.example", nil, outcome.DNS},
		{"private.example", nil, outcome.DNS},
		{"mapped.example", nil, outcome.DNS},
		{"metadata.example", nil, outcome.DNS},
		{"metadata6.example", nil, outcome.DNS},
		{"sixtofour.example", nil, outcome.DNS},
		{"nat64.example", nil, outcome.DNS},
		{"unspecified.example", nil, outcome.DNS},
		// Literals, in every spelling the resolver may know.
		{"127.0.0.1", nil, outcome.BlockedAddr},
		{"[::1]", nil, outcome.BlockedAddr},
		{"[::ffff:7f00:1]", nil, outcome.BlockedAddr},
		{"[fe80::1%25lo]", nil, outcome.BadRequest},
		{"localhost", nil, outcome.DNS},
		{"127.1", nil, outcome.BadRequest},
		{"0x7f000001", nil, outcome.BadRequest},
		{"2130706433", nil, outcome.BadRequest},
		// In trials too.
		{"metadata.example", func(c *Config) { c.AllowPrivate = true }, outcome.DNS},
		{"unspecified.example", func(c *Config) { c.AllowPrivate = true }, outcome.DNS},
		// What is permitted is reached, also as the second address of a name.
		{"loopback.example", func(c *Config) { c.AllowPrivate = true }, outcome.ReasonNone},
		{"loopback.example", func(c *Config) { c.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }, outcome.ReasonNone},
		{"mapped.example", func(c *Config) { c.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }, outcome.ReasonNone},
		{"two.example", func(c *Config) { c.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }, outcome.ReasonNone},
		{"private.example", func(c *Config) { c.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }, outcome.DNS},
		// Names without an address.
		{"nobody.example", nil, outcome.DNS},
		{"empty.example", nil, outcome.DNS},
		{"server.broken", nil, outcome.DNS},
		{"server.silent", func(c *Config) { c.Connect = 100 * time.Millisecond }, outcome.DNS},
		{"server.silent", func(c *Config) { c.Timeout = 100 * time.Millisecond }, outcome.DNS},
	} {
		t.Run(c.host, func(t *testing.T) {
			client := trial(t, func(cfg *Config) {
				cfg.AllowPrivate, cfg.AllowHTTP, cfg.Resolver = false, true, resolver(t, z)
				if c.change != nil {
					c.change(cfg)
				}
			})
			a, err := post(t, client, "http://"+c.host+port+"/inbox")
			if got := ReasonOf(err); got != c.want || (err == nil && a.Status != http.StatusAccepted) {
				t.Errorf("reason %q, want %q: %v, status %d", got, c.want, err, a.Status)
			}
			var blocked *BlockedError
			if led := err != nil && len(z[c.host]) > 0; (led || c.want == outcome.BlockedAddr) && !errors.As(err, &blocked) {
				t.Errorf("no *BlockedError in %v", err)
			}
		})
	}
}

// TestNameThatTurnsPrivateIsRefused: the check is on the address of each
// connection, so a name that was public a moment ago (DNS rebinding) is no way in.
func TestNameThatTurnsPrivateIsRefused(t *testing.T) {
	var connections atomic.Int32
	address := listen(t, func(conn net.Conn) {
		connections.Add(1)
		say("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")(conn)
	})
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	z := zone{"rebind.example": {"127.0.0.1"}}
	client := trial(t, func(c *Config) {
		c.AllowPrivate, c.AllowHTTP, c.Resolver = false, true, resolver(t, z)
		c.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	})
	if _, err := post(t, client, "http://rebind.example:"+port); err != nil {
		t.Fatal(err)
	}
	zoneChange.Lock()
	z["rebind.example"] = []string{"127.0.0.2"}
	zoneChange.Unlock()
	if _, err := post(t, client, "http://rebind.example:"+port); !is[*BlockedError](err) || ReasonOf(err) != outcome.DNS {
		t.Errorf("error %v, want a blocked address", err)
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}
