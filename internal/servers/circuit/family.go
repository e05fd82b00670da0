package circuit

import (
	"net"
	"net/netip"
	"slices"
	"strings"
)

// wildcard is the beginning of a name that stands for a host with all its subdomains.
const wildcard = "*."

// FamilyKey is the key of the record that blocks a host's subdomains. The record holds
// the block only, because each subdomain has a circuit of its own. Parked in that record
// means that the scheduled function has still to look for deliveries that are parked for
// the subdomains.
func FamilyKey(host string) string { return HostKey(wildcard + host) }

// FamilyOf returns the host of a FamilyKey. ok is false if key is not a FamilyKey.
func FamilyOf(key string) (host string, ok bool) {
	return strings.CutPrefix(key, hostPrefix+wildcard)
}

// Above returns all keys whose block refuses deliveries to host: the key of host, and the
// Families of host.
func Above(host string) []string { return append([]string{HostKey(host)}, Families(host)...) }

// Covers reports whether a block under key also refuses deliveries that are parked under
// the key other. The block of a host covers the host's inboxes. The block of subdomains
// covers the hosts below and the inboxes of these hosts.
func Covers(key, other string) bool {
	host, whole := HostOf(other)
	if _, family := FamilyOf(other); family {
		return false
	}
	return !whole && key == HostKey(host) || slices.Contains(Families(host), key)
}

// Families returns the FamilyKey of each domain above host, except for the top-level
// domain, which cannot be blocked. So a host such as social.example, which has only a
// top-level domain above, costs no further look-up.
func Families(host string) (keys []string) {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
		if _, err := netip.ParseAddr(h); err != nil && strings.Contains(h, ".") {
			keys = append(keys, FamilyKey(h)) // the block of host is for one port, the block of the family for all ports
		}
	}
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return nil
	}
	for {
		_, parent, ok := strings.Cut(name, ".")
		if !ok || !strings.Contains(parent, ".") {
			return keys
		}
		keys = append(keys, FamilyKey(parent))
		name = parent
	}
}
