package registry

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"fedpost/internal/activity"
	"fedpost/internal/protocol/sipher/peers"
	"fedpost/internal/servers/circuit"
)

// Name names a host, a single inbox, or a Sipher server (by its URL).
type Name struct {
	// Key of the circuit; empty for a Sipher server.
	Key string
	// URL of a Sipher server, compared as text.
	URL string
}

var ErrName = errors.New("names no server")

const inboxMark = "inbox:"

// ofKey is the suffix of a circuit for one signing key only.
var ofKey = regexp.MustCompile(`#(host)?key-[0-9a-f]{12}$`)

// ParseName reads a name: "social.example", "social.example:8443",
// "*.social.example" (the host with all its subdomains, to block them),
// "inbox:https://social.example/users/frida/inbox", or a Sipher server's URL,
// "https://sipher.example". Its error wraps ErrName.
func ParseName(s string) (Name, error) {
	if inbox, ok := strings.CutPrefix(s, inboxMark); ok {
		key := ofKey.FindString(inbox)
		inbox, err := activity.CanonicalURL(strings.TrimSuffix(inbox, key))
		if err != nil {
			return Name{}, fmt.Errorf("%w: the URL of an inbox after %q %w", ErrName, inboxMark, err)
		}
		return Name{Key: circuit.InboxKey(inbox + key)}, nil
	}
	if strings.Contains(s, "://") {
		if err := peers.CheckURL(s); err != nil {
			return Name{}, fmt.Errorf("%w: %w", ErrName, err)
		}
		server, err := activity.CanonicalServer(s)
		if err != nil {
			return Name{}, fmt.Errorf("%w: the URL %w", ErrName, err)
		}
		return Name{URL: server}, nil
	}
	host, family := strings.CutPrefix(s, "*.")
	host, err := authority(host)
	if family && err == nil && !blockable(host) {
		return Name{}, fmt.Errorf("%w: %q is not a domain of at least two labels, without a port", ErrName, s)
	}
	if family && err == nil {
		return Name{Key: circuit.FamilyKey(host)}, nil
	}
	if err != nil {
		return Name{}, fmt.Errorf("%w: %q is no host name, with a port if it is not 443: %w", ErrName, s, err)
	}
	return Name{Key: circuit.HostKey(host)}, nil
}

var errAuthority = errors.New("no authority")

// authority returns s in the form of the keys of circuits: lower case, without the
// default port.
func authority(s string) (string, error) {
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`/?#@\%`, r) }) {
		return "", errAuthority
	}
	u, err := url.Parse("https://" + s)
	if err != nil || strings.HasSuffix(s, ":") {
		return "", errAuthority
	}
	return activity.Authority(u)
}

// blockable reports whether a host may be blocked with its subdomains. A top-level domain may not, as
// every delivery would have to read its record.
func blockable(host string) bool {
	_, err := netip.ParseAddr(host)
	return err != nil && strings.Contains(host, ".") && !strings.Contains(host, ":")
}

func nameOf(key string) string {
	if host, whole := circuit.HostOf(key); whole {
		return host
	}
	return key // circuit.InboxKey writes it as operators do
}

func (n Name) ByURL() bool { return n.URL != "" }

func (n Name) ofHost() Name { return Name{Key: circuit.HostKey(activity.HostOf(n.URL))} }

// String is the name as ParseName reads it.
func (n Name) String() string {
	if n.ByURL() {
		return n.URL
	}
	return nameOf(n.Key)
}

// host returns the host of a circuit, and whether the circuit is of the whole host.
func (n Name) host() (string, bool) { return circuit.HostOf(n.Key) }
