package outbound

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"

	"fedpost/internal/activity/outcome"
)

// TestANameThatLeadsToARefusedAddressIsTriedAgain: DNS may be right the next time. Only an address in
// the URL is final.
func TestANameThatLeadsToARefusedAddressIsTriedAgain(t *testing.T) {
	z := zone{
		"parked.example": {"0.0.0.0"}, "portal.example": {"10.0.0.1"}, "fakeip.example": {"198.18.0.5"}, "split.example": {"127.0.0.1"},
		"local.example": {"169.254.1.1"}, "reserved.example": {"240.0.0.1"}, "mapped.example": {"::ffff:10.0.0.1"}, "metadata.example": {"169.254.169.254"},
		"down.example": {"127.0.0.9", "127.0.41.8"}, // the second is allowed, and refuses connections
	}
	client := trial(t, func(cfg *Config) {
		cfg.AllowPrivate, cfg.AllowHTTP, cfg.Resolver = false, true, resolver(t, z)
		cfg.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.41.0/24")}
	})
	for host := range z {
		_, err := post(t, client, "http://"+host+":9/inbox")
		if o := Failure(err); o.Class != outcome.Retry || o.Try != outcome.Made || o.Reason != outcome.DNS {
			t.Errorf("%s: %s, try %d, reason %s (%v), want an attempt that failed by DNS", host, o.Class, o.Try, o.Reason, err)
		}
	}
	for _, literal := range []string{"10.0.0.1", "127.0.0.1", "[::ffff:7f00:1]"} {
		_, err := post(t, client, "http://"+literal+":9/inbox")
		if o := Failure(err); o.Class != outcome.Refused || o.Try != outcome.Untried {
			t.Errorf("%s: %s, try %d (%v), want a refusal", literal, o.Class, o.Try, err)
		}
	}
}

// TestTheAllowedAddressOfANameIsUsed beside refused ones, directly and through a proxy, also where
// there are more refused ones than addresses are tried, and where the first way has failed.
func TestTheAllowedAddressOfANameIsUsed(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(accept))
	defer s.Close()
	port := portOf(t, s.URL)
	z := zone{"a.example": {"127.0.0.9", "10.0.0.1", "0.0.0.0", "198.18.0.5", "127.0.0.8", "127.0.0.1"}}
	for name, proxy := range map[string]*url.URL{"direct": nil, "proxy": startProxy(t, "http", s.Listener.Addr().String(), nil).url} {
		client := trial(t, func(c *Config) {
			c.AllowPrivate, c.AllowHTTP, c.Resolver, c.Proxy = false, true, resolver(t, z), proxy
			c.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
		})
		p := client.transport.(*pool)
		for _, failed := range []string{"", "127.0.0.1", "127.0.0.9"} {
			if failed != "" {
				p.closeIdle()
				p.seconds.learn("a.example:"+port, func(w *second) { w.fail(netip.MustParseAddr(failed), false) })
			}
			if a, err := post(t, client, "http://a.example:"+port+"/inbox"); err != nil || a.Status != http.StatusAccepted {
				t.Errorf("%s, after a failure of %q: %d %v", name, failed, a.Status, err)
			}
		}
	}
}
