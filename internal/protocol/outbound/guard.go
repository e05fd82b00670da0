package outbound

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
)

// BlockedError says that an address was not dialled because it is not public. Addresses are checked
// after names are resolved.
type BlockedError struct {
	Addr netip.Addr
	Why  string
	// Name is the name that led to the address; "": the URL has the address itself. DNS may say
	// something else the next time: ad blockers, captive portals, split horizons and parked zones
	// answer with such addresses for a while.
	Name string
}

func (e *BlockedError) Error() string {
	if e.Name != "" {
		return fmt.Sprintf("%s leads to %s, which is not allowed: %s", e.Name, e.Addr, e.Why)
	}
	return fmt.Sprintf("address %s is not allowed: %s", e.Addr, e.Why)
}

// named tells a *BlockedError of the name that led to the address.
func named(host string, err error) error {
	blocked, ok := errors.AsType[*BlockedError](err)
	if _, noName := netip.ParseAddr(host); !ok || noName == nil {
		return err
	}
	return &BlockedError{blocked.Addr, blocked.Why, host}
}

// guard decides which addresses may be dialled.
type guard struct {
	allow   []netip.Prefix
	private bool
}

// control is a net.Dialer's ControlContext, which runs for each resolved address.
func (g guard) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address guard: %w", err)
	}
	return g.check(ap.Addr())
}

// Refuses returns why an inbox would not be dialled, as far as its URL says: a name may resolve to
// an address that is refused.
func (c Config) Refuses(inbox string) error {
	u, err := url.Parse(inbox)
	if err != nil {
		return refuse("%v", err)
	}
	if err := c.reaches(u); err != nil {
		return err
	}
	addr, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return nil // a name
	}
	return guard{allow: c.Allow, private: c.AllowPrivate}.check(addr)
}

// reaches refuses URLs that the configuration does not permit. Tor encrypts by itself, so onion
// services need no https.
func (c Config) reaches(u *url.URL) error {
	switch onion := Onion(u.Hostname()); {
	case onion && c.Onion == nil:
		return refuse("%s is an onion service, and no proxy for those is set", u.Redacted())
	case u.Scheme == "http" && !onion && !c.AllowHTTP && !c.AllowPrivate:
		return refuse("%s is not https", u.Redacted())
	}
	return nil
}

// check returns a *BlockedError unless addr may be dialled.
func (g guard) check(addr netip.Addr) error {
	addr = addr.WithZone("").Unmap()
	if isMetadata(addr) {
		return &BlockedError{Addr: addr, Why: "a cloud's metadata service, which gives out credentials"}
	}
	if slices.ContainsFunc(g.allow, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return nil
	}
	k := kindOf(addr)
	if k.why == "" || (g.private && k.private) {
		return nil
	}
	return &BlockedError{Addr: addr, Why: k.why}
}

// kind says why an address may not be dialled; the zero value stands for a public address.
type kind struct {
	why string
	// private: AllowPrivate permits the address.
	private bool
	// embeds: the address contains an IPv4 address, to which packets may be forwarded.
	embeds bool
}

// metadata lists the services from which a machine in a cloud gets its credentials. They are refused
// whatever the configuration allows.
var metadata = map[netip.Addr]bool{
	netip.MustParseAddr("169.254.169.254"):    true, // AWS, Azure, Google and most others
	netip.MustParseAddr("169.254.170.2"):      true, // AWS, credentials of containers
	netip.MustParseAddr("169.254.170.23"):     true, // AWS, credentials of EKS pods
	netip.MustParseAddr("169.254.42.42"):      true, // Scaleway
	netip.MustParseAddr("168.63.129.16"):      true, // Azure's WireServer: a public address
	netip.MustParseAddr("100.100.100.200"):    true, // Alibaba: within carrier-grade NAT
	netip.MustParseAddr("192.0.0.192"):        true, // Oracle Classic
	netip.MustParseAddr("fd00:ec2::254"):      true, // AWS
	netip.MustParseAddr("fd00:ec2::23"):       true, // AWS, credentials of EKS pods
	netip.MustParseAddr("fd20:ce::254"):       true, // Google
	netip.MustParseAddr("fd00:c1::a9fe:a9fe"): true, // Oracle
	netip.MustParseAddr("fd00:42::42"):        true, // Scaleway
}

// isMetadata reports whether addr is a metadata service or embeds the IPv4 address of one.
func isMetadata(addr netip.Addr) bool {
	if metadata[addr] {
		return true
	}
	if !addr.Is6() {
		return false
	}
	b := addr.As16()
	for _, v4 := range [][4]byte{
		[4]byte(b[12:]),           // NAT64 and the IPv4-compatible forms (RFC 6052, /96)
		[4]byte(b[2:]),            // 6to4 (RFC 3056)
		{b[6], b[7], b[9], b[10]}, // local NAT64 (RFC 8215 with RFC 6052, /48)
	} {
		if metadata[netip.AddrFrom4(v4)] && (nat64.Contains(addr) || kindOf(addr).embeds) {
			return true
		}
	}
	return false
}

// nat64 is the prefix through which an IPv6-only network reaches all of IPv4 (RFC 6052): the
// embedded address is judged.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

func kindOf(addr netip.Addr) kind {
	if nat64.Contains(addr) {
		b := addr.As16()
		return kindOf(netip.AddrFrom4([4]byte(b[12:])))
	}
	for _, s := range special {
		if s.prefix.Contains(addr) {
			return s.kind
		}
	}
	if addr.Is6() && !globalUnicast.Contains(addr) {
		return kind{why: "outside of global unicast"}
	}
	return kind{}
}

// globalUnicast is all of IPv6 that has been allocated to the public so far.
// https://www.iana.org/assignments/ipv6-address-space
var globalUnicast = netip.MustParsePrefix("2000::/3")

// special lists what is not public, narrower prefixes first.
// https://www.iana.org/assignments/iana-ipv4-special-registry
// https://www.iana.org/assignments/iana-ipv6-special-registry
var special = []struct {
	prefix netip.Prefix
	kind
}{
	{netip.MustParsePrefix("0.0.0.0/8"), kind{why: "unspecified"}},
	{netip.MustParsePrefix("10.0.0.0/8"), kind{why: "private", private: true}},
	{netip.MustParsePrefix("100.64.0.0/10"), kind{why: "carrier-grade NAT", private: true}},
	{netip.MustParsePrefix("127.0.0.0/8"), kind{why: "loopback", private: true}},
	{netip.MustParsePrefix("169.254.0.0/16"), kind{why: "link-local or metadata"}},
	{netip.MustParsePrefix("172.16.0.0/12"), kind{why: "private", private: true}},
	{netip.MustParsePrefix("192.0.0.0/24"), kind{why: "protocol assignments"}},
	{netip.MustParsePrefix("192.0.2.0/24"), kind{why: "documentation"}},
	{netip.MustParsePrefix("192.88.99.0/24"), kind{why: "6to4 relay"}},
	{netip.MustParsePrefix("192.168.0.0/16"), kind{why: "private", private: true}},
	{netip.MustParsePrefix("198.18.0.0/15"), kind{why: "benchmarking"}},
	{netip.MustParsePrefix("198.51.100.0/24"), kind{why: "documentation"}},
	{netip.MustParsePrefix("203.0.113.0/24"), kind{why: "documentation"}},
	{netip.MustParsePrefix("224.0.0.0/4"), kind{why: "multicast"}},
	{netip.MustParsePrefix("240.0.0.0/4"), kind{why: "reserved or broadcast"}},

	{netip.MustParsePrefix("::/128"), kind{why: "unspecified"}},
	{netip.MustParsePrefix("::1/128"), kind{why: "loopback", private: true}},
	{netip.MustParsePrefix("::/96"), kind{why: "IPv4-compatible", embeds: true}},
	{netip.MustParsePrefix("::ffff:0:0:0/96"), kind{why: "IPv4-translated", embeds: true}},
	{netip.MustParsePrefix("64:ff9b:1::/48"), kind{why: "local NAT64", embeds: true}},
	{netip.MustParsePrefix("100::/64"), kind{why: "discard-only"}},
	// This prefix includes Teredo, ORCHID and benchmarking: tunnels with unknown ends.
	{netip.MustParsePrefix("2001::/23"), kind{why: "protocol assignments"}},
	{netip.MustParsePrefix("2001:db8::/32"), kind{why: "documentation"}},
	// 6to4 is obsolete (RFC 7526), and a 6to4 address contains any IPv4 address.
	{netip.MustParsePrefix("2002::/16"), kind{why: "6to4", embeds: true}},
	{netip.MustParsePrefix("3fff::/20"), kind{why: "documentation"}},
	{netip.MustParsePrefix("fd00:ec2::/32"), kind{why: "metadata"}},
	{netip.MustParsePrefix("fc00::/7"), kind{why: "private", private: true}},
	{netip.MustParsePrefix("fe80::/10"), kind{why: "link-local"}},
	{netip.MustParsePrefix("fec0::/10"), kind{why: "site-local"}},
	{netip.MustParsePrefix("ff00::/8"), kind{why: "multicast"}},
}
