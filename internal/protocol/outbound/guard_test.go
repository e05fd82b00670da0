package outbound

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"fedpost/internal/testkit/property"
)

func TestGuardRefusesEveryAddressThatIsNotPublic(t *testing.T) {
	const (
		public  = iota
		private // permitted in trials
		never
	)
	for addr, want := range map[string]int{
		// IPv4
		"1.1.1.1": public, "9.255.255.255": public, "11.0.0.0": public, "100.63.255.255": public, "100.128.0.0": public,
		"126.255.255.255": public, "128.0.0.0": public, "169.253.255.255": public, "169.255.0.0": public,
		"172.15.255.255": public, "172.32.0.0": public, "192.167.255.255": public, "192.169.0.0": public,
		"198.17.255.255": public, "198.20.0.0": public, "223.255.255.255": public,
		"10.0.0.0": private, "10.255.255.255": private, "100.64.0.0": private, "100.127.255.255": private,
		"127.0.0.1": private, "127.255.255.255": private, "172.16.0.0": private, "172.31.255.255": private, "192.168.1.1": private,
		"0.0.0.0": never, "0.1.2.3": never, "169.254.169.254": never, "169.254.170.2": never, "192.0.0.1": never,
		"192.0.2.1": never, "192.88.99.1": never, "198.18.0.1": never, "198.19.255.255": never, "198.51.100.1": never,
		"203.0.113.1": never, "224.0.0.1": never, "239.255.255.255": never, "240.0.0.1": never, "255.255.255.255": never,
		// IPv6
		"2606:4700::1111": public, "2a01:4f8::1": public, "2003::1": public, "2001:200::1": public,
		"::1": private, "fc00::1": private, "fdff::1": private,
		"::": never, "fe80::1": never, "fe80::1%eth0": never, "fec0::1": never, "ff02::1": never, "100::1": never,
		"2001:db8::1": never, "3fff::1": never, "2001::1": never, "2001:0:4136:e378::": never, "2001:2::1": never, "2001:10::1": never,
		"fd00:ec2::254": never, "fd20:ce::254": never, "4000::1": never, "5f00::1": never, "1::1": never,
		// IPv4 inside IPv6
		"::ffff:1.1.1.1": public, "::ffff:127.0.0.1": private, "::ffff:10.0.0.1": private, "::ffff:169.254.169.254": never,
		"64:ff9b::1.1.1.1": public, "64:ff9b::10.0.0.1": private, "64:ff9b::169.254.169.254": never, "64:ff9b::7f00:1": private,
		"64:ff9b:1::1.1.1.1": never, "64:ff9b:1:ffff::10.0.0.1": never,
		"2002:0a00:0001::1": never, "2002:7f00:0001::": never, "2002:101:101::1": never,
		"::127.0.0.1": never, "::10.0.0.1": never, "::ffff:0:127.0.0.1": never,
	} {
		a := netip.MustParseAddr(addr)
		for trial, g := range map[bool]guard{false: {}, true: {private: true}} {
			err := g.check(a)
			var blocked *BlockedError
			if err != nil && (!errors.As(err, &blocked) || blocked.Why == "") {
				t.Errorf("%s: %v", addr, err)
			}
			if allowed := want == public || (trial && want == private); (err == nil) != allowed {
				t.Errorf("%s, trial %v: %v", addr, trial, err)
			}
		}
	}
}

func TestGuardAllowList(t *testing.T) {
	g := guard{allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd12::/16")}}
	for addr, allowed := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "fd12::1": true, "fd12::1%eth0": true,
		"10.2.0.1": false, "fd13::1": false, "169.254.169.254": false, "2002:0a01:0203::": false,
	} {
		if err := g.check(netip.MustParseAddr(addr)); (err == nil) != allowed {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

// TestAnInboxIsRefusedByItsURLAlone if the URL has an address or a scheme that is refused.
func TestAnInboxIsRefusedByItsURLAlone(t *testing.T) {
	for _, c := range []struct {
		config Config
		inbox  string
		says   string // "": it is not refused
	}{
		{Config{}, "https://a.example/i", ""},
		{Config{}, "http://a.example/i", "is not https"},
		{Config{AllowHTTP: true}, "http://a.example/i", ""},
		{Config{AllowHTTP: true}, "http://127.0.0.1/i", "not allowed"},
		{Config{}, "https://10.0.0.7:8443/i", "10.0.0.7 is not allowed"},
		{Config{}, "https://[fd12::1]/i", "not allowed"},
		{Config{AllowPrivate: true}, "http://10.0.0.7/i", ""},
		{Config{AllowPrivate: true}, "http://169.254.169.254/i", "metadata"},
		{Config{Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, "https://10.0.0.7/i", ""},
		{Config{}, "https://%zz/", "invalid URL"},
	} {
		if err := c.config.Refuses(c.inbox); (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.inbox, err, c.says)
		}
	}
}

// TestGuardJudgesEmbeddedAddressesAsThemselves: no way of writing an IPv4
// address into an IPv6 one opens what is closed.
func TestGuardJudgesEmbeddedAddressesAsThemselves(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		b := [4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "v4"))
		v4 := netip.AddrFrom4(b)
		open := guard{}.check(v4) == nil
		for _, prefix := range []string{"::ffff:0:0", "64:ff9b::", "::", "::ffff:0:0:0", "64:ff9b:1::", "2002::", "2001::"} {
			a := netip.MustParseAddr(prefix).As16()
			copy(a[12:], b[:])
			if prefix == "2002::" {
				copy(a[2:], b[:])
			}
			if guard := (guard{}); !open && guard.check(netip.AddrFrom16(a)) == nil {
				t.Errorf("%s is closed, but %s is open", v4, netip.AddrFrom16(a))
			}
		}
		// Whatever the standard library calls private is closed.
		a := netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "v6")))
		for _, a := range []netip.Addr{a, v4} {
			if (a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() || !a.IsGlobalUnicast()) && (guard{}).check(a) == nil {
				t.Errorf("%s is open", a)
			}
		}
	})
}

// TestMetadataServicesAreNeverDialled: not in trials, not where the network
// around them is allowed, and in no way of writing them into an IPv6 address.
func TestMetadataServicesAreNeverDialled(t *testing.T) {
	everything := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	for _, addr := range []string{
		"169.254.169.254", "169.254.170.2", "169.254.170.23", "169.254.42.42", "168.63.129.16", "100.100.100.200", "192.0.0.192",
		"fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42", "fd00:ec2::254%eth0",
		"::ffff:168.63.129.16", "64:ff9b::168.63.129.16", "::168.63.129.16", "::ffff:0:168.63.129.16",
		"2002:a83f:8110::1", "64:ff9b:1:a83f:0081:1000::", "64:ff9b:1::168.63.129.16",
		"::ffff:100.100.100.200", "64:ff9b::100.100.100.200", "2002:6464:64c8::1", "2002:a9fe:a9fe::", "64:ff9b::169.254.169.254",
	} {
		for _, g := range []guard{{}, {private: true}, {private: true, allow: everything}} {
			var blocked *BlockedError
			if err := g.check(netip.MustParseAddr(addr)); !errors.As(err, &blocked) {
				t.Errorf("%s, allowed %v: %v", addr, g.allow, err)
			}
		}
	}
	for _, neighbour := range []string{"168.63.129.17", "168.63.129.15", "100.100.100.201", "2a83:f811::a83f:8110", "2a01:a83f:8110::1"} {
		if err := (guard{private: true}).check(netip.MustParseAddr(neighbour)); err != nil {
			t.Errorf("%s: %v", neighbour, err)
		}
	}
}
