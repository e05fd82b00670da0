package activity

import (
	"cmp"
	"net"
	"net/netip"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// SiteOf names the site of a host, which usually has one owner: all hosts of a registrable domain
// (https://publicsuffix.org), all ports of an address, all addresses of an IPv6 /64. The host is in
// canonical form, with or without a port.
func SiteOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if _, err := netip.ParseAddr(host); err == nil {
		return NetworkOf(host)
	}
	// A public suffix has no registrable domain.
	domain, _ := publicsuffix.EffectiveTLDPlusOne(host)
	return cmp.Or(domain, host)
}

// NetworkOf returns the /64 of an IPv6 address, which has one owner; any other text stays as it is.
func NetworkOf(host string) string {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if addr = addr.WithZone("").Unmap(); addr.Is6() {
		return netip.PrefixFrom(addr, 64).Masked().String()
	}
	return addr.String()
}
