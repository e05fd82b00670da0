// Package app builds fedpost's three functions from settings and an engine.
//
// Only package app puts all packages together. It imports neither AWS nor SQLite: the caller passes
// the engine as Ports. So `fedpost up`, the tests and the Lambda functions run the same code, and
// Lambda binaries link no SQLite.
package app

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"fedpost/internal/api/operator"
	"fedpost/internal/app/config"
	"fedpost/internal/engine/queue"
	"fedpost/internal/keys"
	"fedpost/internal/message/tracing"
	"fedpost/internal/protocol/outbound"

	"fedpost/internal/engine/table"
	"fedpost/internal/ledger/events"
	"fedpost/internal/ledger/stats"
	"fedpost/internal/servers/cache"
	"fedpost/internal/store"
)

// Ports are what package app gets from its caller.
type Ports struct {
	Table table.Table
	Queue func(queue.Name) queue.Queue
	// Sealer protects signing keys; the health check needs none.
	Sealer keys.Sealer
	// AllowPrivate permits plain http and private addresses: for trials.
	AllowPrivate bool
	// Alone is set by a process that has the engine for itself, to a name that no earlier
	// process had. Claims of earlier processes then count as lapsed. Empty on AWS.
	Alone string
	// PerQueue bounds the deliveries of one queue under way at once in a process that runs many
	// invocations; 0: each invocation has its own bound only.
	PerQueue int
	// Idle is how many unused connections to other servers are kept; 0: outbound's default.
	Idle int
	// Flush is deliver.Limits.Flush, for tests that count writes; 0: its default.
	Flush time.Duration
	// Transport, if not nil, replaces the network for requests to other servers, for tests. It
	// has no address guard.
	Transport http.RoundTripper
	Log       *slog.Logger
	// Metrics count for a monitoring system; nil counts nothing.
	Metrics stats.Metrics
	// Tally counts for statistics; nil gives each function a tally of its own.
	Tally *stats.Tally
	// Trace makes spans; nil makes none.
	Trace *tracing.Tracer
	// Bus, if not nil, gets all events, too; BusName is its name.
	Bus     Bus
	BusName string
	// Rows is the outbox; nil: the engine has none.
	Rows operator.Outbox
	// Notifier wakes readers of the feed of events in this process; nil: they poll.
	Notifier *events.Notifier
	// keepEvents is how long events are kept; 0: the default.
	keepEvents time.Duration
	// Keys is the key ring that the functions of a process share, so that deliver uses a
	// replaced key at once; nil: one for each function.
	Keys *keys.Ring
	// Faster is keys.Options.Faster.
	Faster func(crypto.Signer) crypto.Signer
	// Now is the clock; default the wall clock.
	Now func() time.Time
	// Date is the clock of signatures, which other servers check; default Now.
	Date func() time.Time
	// Random returns numbers in [0, 1) for jitter; default math/rand/v2.
	Random func() float64
}

type Bus interface {
	Put(ctx context.Context, all []BusEvent) error
}

// BusEvent is the same type as eventbridge.Entry, whose package imports AWS.
type BusEvent = struct {
	Type string
	Time time.Time
	JSON string
}

func (p Ports) now() func() time.Time {
	if p.Now == nil {
		return Wall
	}
	return p.Now
}

func (p Ports) date() func() time.Time {
	if p.Date == nil {
		return p.now()
	}
	return p.Date
}

// Wall is the wall clock, without Go's monotonic clock, which stops while a Lambda is frozen or a
// laptop sleeps: a process that wakes up would use expired leases, and old states of hosts and
// keys.
func Wall() time.Time { return time.Now().Round(0) }

func (p Ports) random() func() float64 {
	if p.Random == nil {
		return rand.Float64
	}
	return p.Random
}

func (p Ports) store() *store.Store {
	return store.New(p.Table, p.now()).Alone(p.Alone).WithEvents(p.keepEvents, p.Notifier)
}

// Index adds dead letters and keys of earlier versions to the indexes by host and by id. It reads
// all of them, once; later calls read two items. For partitions see Store.IndexKeys.
func (p Ports) Index(ctx context.Context, partitions func(ctx context.Context, prefix string) ([]string, error)) error {
	letters, errLetters := p.store().IndexDeadLetters(ctx)
	ks, errKeys := p.store().IndexKeys(ctx, partitions)
	if letters+ks > 0 {
		p.Log.InfoContext(ctx, "indexed the dead letters and keys of an earlier version", "dead_letters", letters, "keys", ks)
	}
	return errors.Join(errLetters, errKeys)
}

func (p Ports) ring() *keys.Ring {
	if p.Keys != nil {
		return p.Keys
	}
	return p.NewRing()
}

func (p Ports) NewRing() *keys.Ring {
	return keys.New(p.store(), p.Sealer, keys.Options{Now: p.now(), Faster: p.Faster})
}

// SealIn sets the sealer of a process without KMS. It makes a file of the sealing key only for a
// table that has never had one.
func (p *Ports) SealIn(ctx context.Context, key keys.SealingKey) error {
	s, err := keys.OpenLocalSealerOf(ctx, key, p.store())
	if err != nil {
		return err
	}
	p.Sealer = s
	return nil
}

// OpenIn is SealIn for a table that is only read: it makes no file. Without a sealing key the
// sealer opens nothing.
func (p *Ports) OpenIn(ctx context.Context, key keys.SealingKey) error {
	s, err := keys.ProvenLocalSealer(ctx, key, p.store())
	if err == nil && s != nil {
		p.Sealer = s
	}
	return err
}

func (p Ports) sender(n queue.Name) queue.Sender { return p.Queue(n) }

func (p Ports) senders() map[queue.Name]queue.Sender {
	m := make(map[queue.Name]queue.Sender, len(queue.Names))
	for _, n := range queue.Names {
		m[n] = p.Queue(n)
	}
	return m
}

// addresses says what an HTTP client may dial.
func (p Ports) addresses(o config.Outbound) outbound.Config {
	return outbound.Config{AllowPrivate: p.AllowPrivate, AllowHTTP: o.PlainHTTP, Allow: o.Allow, Proxy: o.Proxy.URL, Onion: o.Onion.URL}
}

// client is the HTTP client for requests to other servers. hosts knows which have accepted
// deliveries; nil: not known. Requests may set a shorter timeout. The client reads at most
// maxBody bytes of an answer.
func (p Ports) client(o config.Outbound, hosts *cache.Hosts, timeout time.Duration, maxBody int) (*outbound.Client, error) {
	config := p.addresses(o)
	config.UserAgent, config.Timeout, config.MaxBody, config.Idle, config.Transport = o.UserAgent, timeout, maxBody, p.Idle, p.Transport
	if hosts != nil {
		config.Proven = hosts.Proven
	}
	c, err := outbound.New(config)
	if err != nil {
		return nil, fmt.Errorf("HTTP client: %w", err)
	}
	return c, nil
}
