// Package sipher speaks the Sipher federation protocol: it attempts deliveries, serves /discover,
// runs health checks and records follows when they are enqueued.
//
// The protocol is a table of outcomes in a fixed order (attempt.go): what can be refused without I/O
// is refused first, and no request reaches a target that a later row would have made pointless.
//
// Its parts: crypto (keys, envelopes, our identity), wire (documents), peers (other servers), follow
// (local records of follows).
package sipher

import (
	"cmp"
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol"
	"fedpost/internal/protocol/outbound"
	"fedpost/internal/protocol/retry"
	"fedpost/internal/protocol/sipher/crypto"
	"fedpost/internal/protocol/sipher/follow"
	"fedpost/internal/protocol/sipher/peers"
)

const (
	// Timeout of the request of a delivery.
	Timeout = 15 * time.Second

	// Budget is the longest that an attempt takes: the server has to be discovered, cannot be
	// reached, and a proxy has to be found by a sweep. The engine should start no attempt with less
	// time left; one that runs out of time does not count against the server.
	Budget = peers.DiscoveryTimeout + peers.RegisterTimeout + Timeout + peers.SweepTimeout + peers.RelayTimeout + time.Second

	// MaxAnswer is how much of an answer the HTTP client should read, in bytes: a server may
	// acknowledge a post by sending it back, in base64 and sealed.
	MaxAnswer = 1 << 20
)

// Store is everything the protocol asks of its storage.
type Store interface {
	peers.Store
	peers.BlockList
	follow.Store
	peers.Schedule
}

// Config is what a Protocol is made of.
type Config struct {
	// Identity is our own. Attempts need all of it, Discover the public part, Check and Record
	// nothing: a process that makes no attempts should get no private keys.
	Identity crypto.Identity
	Store    Store
	// HTTP sends requests. No other address guard exists.
	HTTP *outbound.Client
	// Policies by reason; nil stands for peers.DefaultPolicies.
	Policies *peers.Policies
	// Probes is how many servers are checked at once; 0: peers.Concurrency.
	Probes int
	// Checks is how many checks of an outage may fail before they end; 0: peers.MaxChecks.
	Checks int
	// Limiter of /discover per caller; nil: none.
	Limiter *peers.RateLimit
	Log     *slog.Logger
	Now     func() time.Time
	// Entropy for envelopes; nil: crypto/rand.
	Entropy io.Reader
}

// Protocol is safe for concurrent use. Make one for a process.
type Protocol struct {
	Config
	http      peers.Exchange
	discovery *peers.Discovery
	handler   *peers.Handler
	prober    *peers.Prober
	relay     *peers.Relay
}

// New returns a Protocol. With an incomplete identity, jobs are refused with an error that names the
// missing settings.
func New(c Config) *Protocol {
	if c.Policies == nil {
		d := peers.DefaultPolicies()
		c.Policies = &d
	}
	c.Probes = cmp.Or(c.Probes, peers.Concurrency)
	c.Checks = cmp.Or(c.Checks, peers.MaxChecks)
	if c.Entropy == nil {
		c.Entropy = rand.Reader
	}
	client := peers.NewExchange(c.HTTP)
	p := &Protocol{Config: c, http: client}
	p.prober = &peers.Prober{
		Registry: c.Store, Schedule: c.Store, HTTP: client, Policies: *c.Policies,
		Log: c.Log, Now: c.Now, Concurrency: c.Probes, Limit: c.Checks,
	}
	p.discovery = peers.NewDiscovery(c.Identity.Public, p.prober)
	p.handler = peers.NewHandler(peers.HandlerConfig{
		Prober: p.prober, Identity: c.Identity.Public, Blocks: c.Store, Limiter: c.Limiter,
	})
	p.relay = &peers.Relay{Prober: p.prober, Identity: c.Identity, Blocks: c.Store, Entropy: c.Entropy}
	return p
}

// Check implements protocol.Upkeep: it runs the health checks that are due.
func (p *Protocol) Check(ctx context.Context, _ time.Time) error { return p.prober.Check(ctx) }

const (
	// KeepDelivered and KeepFailed are how long records are kept for diagnosis.
	KeepDelivered = 24 * time.Hour
	KeepFailed    = 7 * 24 * time.Hour
)

// Bounds are what an installation allows the protocol.
type Bounds struct {
	// InFlight is how many jobs a process delivers at once; 0: only the bounds for all protocols.
	InFlight int
	// PerHost is how many attempts one host may have under way, whatever the protocol.
	PerHost int
}

// Register returns the protocol's registration. The protocol has no circuits, so each job for a server
// that hangs is tried: jobs for one host get half of the places at most.
func Register(p *Protocol, b Bounds) protocol.Protocol {
	return protocol.Protocol{
		Name: activity.Sipher,
		Intake: protocol.Intake{
			Body: protocol.Text, Missing: "give the exact JSON text to encrypt, as a string",
			Fields: []protocol.Field{protocol.Job, protocol.ServerURL}, Signs: "with the server's own identity",
			Single: true, Recorder: p,
		},
		Delivery: protocol.Delivery{
			Sender: p, Policy: retry.Sipher(), Attempt: Budget,
			InFlight: b.InFlight, PerHost: min(b.PerHost, max(1, b.InFlight/2)),
			KeepDelivered: KeepDelivered, KeepFailed: KeepFailed,
		},
		Upkeep: p,
		Public: map[string]http.Handler{"/discover": http.HandlerFunc(p.Discover)},
	}
}

// Discover serves GET and POST /discover, for anybody. It reads the handler at each request, so that
// Register works without a Protocol.
func (p *Protocol) Discover(w http.ResponseWriter, r *http.Request) { p.handler.ServeHTTP(w, r) }

// Record implements protocol.Recorder: the record of a follow must exist when its acknowledgement
// arrives.
func (p *Protocol) Record(ctx context.Context, a activity.Activity, _ activity.Target) error {
	return follow.Record(ctx, p.Store, a, p.Now())
}

// Prepare implements protocol.Sender. A job has one target, so nothing is shared.
func (p *Protocol) Prepare(_ context.Context, a activity.Activity) protocol.Attempt {
	return func(ctx context.Context, t activity.Target, n int) outcome.Outcome { return p.Attempt(ctx, a, t, n) }
}
