package circuit

import (
	"net"
	"net/netip"
	"slices"
	"strings"
)

const wildcard = "*."

// FamilyKey is the key of the record that blocks a host's subdomains, which have circuits of
// their own. Parked there says that deliveries may be parked for the subdomains.
func FamilyKey(host string) string { return HostKey(wildcard + host) }

// FamilyOf returns the host of a FamilyKey. ok is false for other keys.
func FamilyOf(key string) (host string, ok bool) {
	return strings.CutPrefix(key, hostPrefix+wildcard)
}

// Above returns all keys whose block refuses deliveries to host.
func Above(host string) []string { return append([]string{HostKey(host)}, Families(host)...) }

// Covers reports whether a block under key refuses deliveries parked under other: those of the
// host's inboxes, or of the hosts below and their inboxes.
func Covers(key, other string) bool {
	host, whole := HostOf(other)
	if _, family := FamilyOf(other); family {
		return false
	}
	return !whole && key == HostKey(host) || slices.Contains(Families(host), key)
}

// Families returns the FamilyKey of each domain above host, except for the top-level domain,
// which cannot be blocked.
func Families(host string) (keys []string) {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
		if _, err := netip.ParseAddr(h); err != nil && strings.Contains(h, ".") {
			keys = append(keys, FamilyKey(h)) // a host's block is for one port, a family's for all
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
