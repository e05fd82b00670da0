package activity

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// lookup maps names to the ASCII that DNS is asked for (UTS #46, non-transitional,
// https://www.unicode.org/reports/tr46/), as browsers do. Hyphens may stand anywhere, because names such as
// r3---sn-a5m.example are in use; underscores, which are in use, too, are left to checkName.
var lookup = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.StrictDomainName(false), idna.CheckHyphens(false))

var ErrHost = errors.New("invalid host")

// HostName returns the one name of the host that s, without a port, spells: lower-case ASCII (RFC 5891,
// A-labels) without trailing dot, or an IP address in its canonical form, IPv6 in brackets.
//
// Its error wraps ErrHost and says what is wrong with s: a label that is empty, longer than 63 bytes or
// begins or ends with a hyphen; more than 253 bytes; characters other than letters, digits, hyphen and
// underscore; an IP address in a short, octal or hexadecimal form (some resolvers read 127.1 as 127.0.0.1);
// an IPv6 address with a zone.
func HostName(s string) (string, error) {
	if !utf8.ValidString(s) {
		return "", fmt.Errorf("%w: %q is not UTF-8", ErrHost, cut(s))
	}
	name := s
	if strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) {
		var err error
		if name, err = lookup.ToASCII(s); err != nil {
			return "", fmt.Errorf("%w: %q has characters that no host name may have (%v)", ErrHost, cut(s), err)
		}
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if strings.Contains(name, ":") || numeric(name) {
		return address(name)
	}
	if err := checkName(name); err != nil {
		return "", fmt.Errorf("%w: %q %w", ErrHost, cut(s), err)
	}
	return name, nil
}

// numeric reports whether the last label of name is a number: top-level domains never are (RFC 3696, section
// 2), so name can only be an address.
func numeric(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if digits, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}

func address(s string) (string, error) {
	a, err := netip.ParseAddr(s)
	switch {
	case err != nil && strings.Contains(s, ":"):
		return "", fmt.Errorf("%w: %q is not an IPv6 address", ErrHost, cut(s))
	case err != nil:
		return "", fmt.Errorf("%w: %q ends in a number but is not an IPv4 address of four decimal numbers", ErrHost, cut(s))
	case a.Zone() != "":
		return "", fmt.Errorf("%w: %q has a zone, which means something on one machine only", ErrHost, cut(s))
	}
	// ::ffff:192.0.2.1 is dialled as 192.0.2.1.
	if a = a.Unmap(); a.Is6() {
		return "[" + a.String() + "]", nil
	}
	return a.String(), nil
}

func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("has no characters of a host name")
	case len(name) > 253:
		return errors.New("is longer than 253 bytes")
	}
	for label := range strings.SplitSeq(name, ".") {
		switch {
		case label == "":
			return errors.New("has an empty label: two dots in a row, or one at the beginning")
		case len(label) > 63:
			return errors.New("has a label of more than 63 bytes")
		case label[0] == '-' || label[len(label)-1] == '-':
			return errors.New("has a label that begins or ends with a hyphen")
		}
		for _, c := range []byte(label) {
			if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
				return fmt.Errorf("has %q, which no host name may have", rune(c))
			}
		}
	}
	return nil
}

// cut shortens a stranger's text for an error.
func cut(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}

// Authority returns the one name of u's host (HostName), with the port in decimal unless it is the scheme's
// default. By this name hosts are dialled and signed, and circuits, blocks, limits, ordering groups and
// parked deliveries are kept. Its error wraps ErrHost.
func Authority(u *url.URL) (string, error) {
	host, err := HostName(u.Hostname())
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(u.Host, "[") && host[0] != '[' && !numeric(host) {
		return "", fmt.Errorf("%w: %q is in brackets but is not an IPv6 address", ErrHost, cut(u.Hostname()))
	}
	if u.Port() == "" {
		return host, nil
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	switch {
	case err != nil || port == 0:
		return "", fmt.Errorf("%w: port %s is not between 1 and 65535", ErrHost, cut(u.Port()))
	case u.Scheme == "https" && port == 443, u.Scheme == "http" && port == 80:
		return host, nil
	}
	return host + ":" + strconv.FormatUint(port, 10), nil
}

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
