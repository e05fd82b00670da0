// Package registry shows operators the servers that deliveries go to, and lets them
// block, pause, check and limit a server.
//
// It shows circuits (package circuit) and the registry of the Sipher protocol in one vocabulary. All
// changes are compare-and-swap, so that an operator never overwrites a worker's change.
package registry

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"fedpost/client"
	"fedpost/internal/activity"
	"fedpost/internal/protocol/sipher/peers"
	"fedpost/internal/protocol/webhook"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/ratelimit"
)

// Errors of the service.
var (
	// ErrUnknown: there is no such Sipher server. A host is never unknown: a host
	// without a record is healthy.
	ErrUnknown = errors.New("no such server")
	// ErrBlocked: the action is not possible while the server is blocked.
	ErrBlocked = errors.New("server is blocked: unblock it first")
	// ErrNoRecord: nothing is recorded of the host or inbox.
	ErrNoRecord = errors.New("nothing is recorded")
	// ErrParked: deliveries are parked for the server, or were a moment ago.
	ErrParked = errors.New("deliveries wait for the server")
	// ErrNotApplicable: the action is not possible for a server of this kind.
	ErrNotApplicable = errors.New("does not apply")
	// ErrBadCursor: a cursor was not made by fedpost.
	ErrBadCursor = errors.New("no such cursor")
)

// Sipher is what a Service needs of the Sipher protocol's storage.
type Sipher interface {
	peers.Store
	peers.BlockList
	peers.Schedule
}

// Hosts are the records of hosts and inboxes.
type Hosts interface {
	circuit.Store
	// DropServer removes a state, or returns circuit.ErrChanged if it has changed since it
	// was loaded.
	DropServer(ctx context.Context, s circuit.State) error
}

// Service shows servers to operators and changes them.
type Service struct {
	Hosts  Hosts
	Limits ratelimit.Limiter
	Sipher Sipher
	// Webhooks lists the webhooks, whose hosts have circuits, too.
	Webhooks func(ctx context.Context) ([]webhook.Webhook, error)
	Rules    circuit.Rules
	Now      func() time.Time
}

// Directory is one kind of servers: hosts and inboxes, or the servers in a protocol's own registry.
// All but the first two methods return the server as it is afterwards.
type Directory interface {
	// protocols are what its servers are shown as.
	protocols() []activity.Protocol
	// page returns up to limit servers that match f, in the order of the directory;
	// there may be more unless next is empty.
	page(ctx context.Context, f Filter, after string, limit int) (vs []client.Server, next string, err error)

	// Get returns a server. A URL that is not a Sipher server's, such as one from a browser, stands
	// for its host, here and in Resume and Check.
	Get(ctx context.Context, n Name) (client.Server, error)
	// Block refuses all deliveries to a server; those parked for it fail. Workers cache states, so
	// they may send for some seconds more. A URL blocks its host for every protocol.
	Block(ctx context.Context, n Name, why string) (client.Server, error)
	// Unblock undoes Block. What failed meanwhile stays failed.
	Unblock(ctx context.Context, n Name) (client.Server, error)
	// Pause holds deliveries to a host back until a time. If until is zero, the pause lasts
	// until Resume.
	Pause(ctx context.Context, n Name, until time.Time, why string) (client.Server, error)
	// Resume ends a pause, an outage, or the phase gone. Parked deliveries are released step by step.
	Resume(ctx context.Context, n Name) (client.Server, error)
	// Check makes a probe of a server that is down due at the next scheduled run, within a minute.
	// Applications call it when they have heard from a server, which could be forged: hence a probe.
	Check(ctx context.Context, n Name) (client.Server, error)
	// Limit sets how many deliveries a minute a host gets; 0 removes the limit. burst is how many may
	// be sent at once; 0: those of five seconds.
	Limit(ctx context.Context, n Name, perMinute, burst int) (client.Server, error)
	// Pin replaces the pinned keys of a Sipher server, after its operator has confirmed them by another
	// channel. It adds the server if it is new.
	Pin(ctx context.Context, n Name, k client.SipherKeys) (client.Server, error)
	// Forget deletes the record of a host or an inbox, with an operator's settings, unless deliveries
	// are parked for it: they are found by the record.
	Forget(ctx context.Context, n Name) error
}

// directories returns all directories, in the order in which they are listed.
func (s *Service) directories() []Directory { return []Directory{hosts{s}, siphers{s}} }

// Of is the directory of a server.
func (s *Service) Of(n Name) Directory {
	if n.ByURL() {
		return siphers{s}
	}
	return hosts{s}
}

// Protocols lists the protocols that servers are shown with.
func (s *Service) Protocols() []activity.Protocol {
	var all []activity.Protocol
	for _, d := range s.directories() {
		all = append(all, d.protocols()...)
	}
	return all
}

// Filter selects servers: those that match all that is set.
type Filter struct {
	Phase    circuit.Phase
	Protocol activity.Protocol
}

func (f Filter) matches(v client.Server) bool {
	return (f.Phase == "" || client.Phase(f.Phase) == v.Phase) && (f.Protocol == "" || string(f.Protocol) == v.Protocol)
}

// Phases lists the phases that a server may be shown in.
var Phases = []circuit.Phase{
	circuit.Healthy, circuit.Unhealthy, circuit.HalfOpen, circuit.Recovering, circuit.Paused, circuit.Exhausted, circuit.Gone, circuit.Blocked,
}

// mostReads is how many reads of the table one page takes at most.
const mostReads = 50

// List pages through all servers with a record: hosts and inboxes in no order, then
// Sipher servers by URL. A page may be shorter than limit and not be the last; next is
// empty after the last page.
func (s *Service) List(ctx context.Context, f Filter, cursor string, limit int) (vs []client.Server, next string, err error) {
	at, err := parseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	vs = []client.Server{}
	all := s.directories()
	for reads := 0; at.directory < len(all); reads++ {
		d := all[at.directory]
		if f.Protocol != "" && !slices.Contains(d.protocols(), f.Protocol) {
			at = position{directory: at.directory + 1}
			continue
		}
		if len(vs) >= limit || reads == mostReads {
			return vs, at.String(), nil
		}
		page, after, err := d.page(ctx, f, at.after, limit-len(vs))
		if err != nil {
			return nil, "", err
		}
		vs = append(vs, page...)
		if at.after = after; after == "" {
			at.directory++
		}
	}
	return vs, "", nil
}

// position is where a list continues: a directory, and a cursor in it, for Sipher servers a URL.
type position struct {
	directory int
	after     string
}

// marks stand for the directories in a cursor.
var marks = []string{"c", "s"}

func (p position) String() string { return Cursor(marks[p.directory], p.after) }

func parseCursor(s string) (position, error) {
	if s == "" {
		return position{}, nil
	}
	mark, after, err := ParseCursor(s)
	p := position{directory: slices.Index(marks, mark), after: after}
	if err != nil || p.directory < 0 {
		return position{}, ErrBadCursor
	}
	return p, nil
}

// Cursor is a cursor of a list that has parts, each with cursors of its own. It is encoded so that
// clients do not make cursors of their own. part has no space.
func Cursor(part, after string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(part + " " + after))
}

// ParseCursor reads what Cursor makes, or returns ErrBadCursor.
func ParseCursor(s string) (part, after string, err error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	part, after, ok := strings.Cut(string(b), " ")
	if err != nil || !ok {
		return "", "", ErrBadCursor
	}
	return part, after, nil
}

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
