// Package registry shows operators the servers that deliveries go to, and lets them
// block, pause, check and limit a server.
//
// It shows circuits (package circuit) and the registry of the Sipher protocol in one vocabulary. All
// changes are compare-and-swap, so that an operator never overwrites a worker's change.
package registry

import (
	"context"
	"errors"
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

// Records drops the records of hosts and inboxes.
type Records interface {
	// DropServer removes a state, or returns circuit.ErrChanged if it has changed since it
	// was loaded.
	DropServer(ctx context.Context, s circuit.State) error
}

// Service shows servers to operators and changes them.
type Service struct {
	Hosts  circuit.Store
	Limits ratelimit.Limiter
	// Records drops what is recorded of hosts and inboxes.
	Records Records
	Sipher  Sipher
	// Webhooks lists the webhooks, whose hosts have circuits, too.
	Webhooks func(ctx context.Context) ([]webhook.Webhook, error)
	Rules    circuit.Rules
	Now      func() time.Time
}

// directory is one kind of servers: hosts and inboxes, or the servers in a protocol's own registry.
type directory interface {
	// protocols are what its servers are shown as.
	protocols() []activity.Protocol
	// page returns up to limit servers that match f, in the order of the directory;
	// there may be more unless next is empty.
	page(ctx context.Context, f Filter, after string, limit int) (vs []client.Server, next string, err error)

	get(ctx context.Context, n Name) (client.Server, error)
	block(ctx context.Context, n Name, why string) (client.Server, error)
	unblock(ctx context.Context, n Name) (client.Server, error)
	pause(ctx context.Context, n Name, until time.Time, why string) (client.Server, error)
	resume(ctx context.Context, n Name) (client.Server, error)
	check(ctx context.Context, n Name) (client.Server, error)
	limit(ctx context.Context, n Name, perMinute, burst int) (client.Server, error)
	pin(ctx context.Context, n Name, k client.SipherKeys) (client.Server, error)
}

// directories returns all directories, in the order in which they are listed.
func (s *Service) directories() []directory { return []directory{hosts{s}, siphers{s}} }

// of is the directory of a server.
func (s *Service) of(n Name) directory {
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
