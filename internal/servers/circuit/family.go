package circuit

import (
	"net"
	"net/netip"
	"slices"
	"strings"
)

// wildcard begins the name of a block of a host with all its subdomains.
const wildcard = "*."

// FamilyKey is the key of the block of a host's subdomains. Nothing but Blocked is
// ever said under it: subdomains have circuits of their own. Parked means that
// what is parked for them is still to be looked for.
func FamilyKey(host string) string { return HostKey(wildcard + host) }

// FamilyOf returns the host whose subdomains a key is of, and whether it is of
// subdomains at all.
func FamilyOf(key string) (host string, ok bool) {
	return strings.CutPrefix(key, hostPrefix+wildcard)
}

// Above are the keys under which a block of host would stand: its own, and those of
// its families.
func Above(host string) []string { return append([]string{HostKey(host)}, Families(host)...) }

// Covers reports whether a block under key refuses what is parked under other, too:
// that of a host its inboxes, that of subdomains the hosts below and their inboxes.
func Covers(key, other string) bool {
	host, whole := HostOf(other)
	if _, family := FamilyOf(other); family {
		return false
	}
	return !whole && key == HostKey(host) || slices.Contains(Families(host), key)
}

// Families are the keys under which a block of host's subdomains would stand: one
// for each domain above it, but for the top-level one, which cannot be blocked.
// So a host such as social.example costs no look-up beside its own.
func Families(host string) (keys []string) {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
		if _, err := netip.ParseAddr(h); err != nil && strings.Contains(h, ".") {
			keys = append(keys, FamilyKey(h)) // its block is of one port, the family's of all
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
