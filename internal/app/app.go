// Package app builds fedpost's three functions from settings and an engine.
//
// Only package app knows how the rooms fit together. Package app imports neither
// AWS nor SQLite: the caller passes the engine as Ports. So `fedpost up`, the
// tests and the Lambda functions run the same code, and a Lambda binary links
// nothing of the embedded engine.
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

// Ports are the engine and everything else that package app gets from its caller.
type Ports struct {
	Table table.Table
	Queue func(queue.Name) queue.Queue
	// Sealer protects signing keys; the health check needs none.
	Sealer keys.Sealer
	// AllowPrivate permits plain http and private addresses: for trials.
	AllowPrivate bool
	// Alone is set by a process that has the engine for itself, to a name that no
	// earlier process had. Claims of earlier processes then count as lapsed. Empty on
	// AWS.
	Alone string
	// PerQueue bounds the deliveries of one queue under way at once, in a process
	// that runs many invocations. 0: each invocation has its own bound only.
	PerQueue int
	// Idle is how many unused connections to other servers are kept; 0: outbound's default.
	Idle int
	// Flush is deliver.Limits.Flush; 0 means its default. A test that counts
	// writes sets Flush high, so that a slow machine adds no writes.
	Flush time.Duration
	// Transport, if not nil, carries all requests to other servers in place of
	// network connections, for tests with servers in memory. It has no address
	// guard.
	Transport http.RoundTripper
	Log       *slog.Logger
	// Metrics count for a monitoring system; nil counts nothing.
	Metrics stats.Metrics
	// Tally counts for statistics; nil gives each function a tally of its own.
	Tally *stats.Tally
	// Trace makes spans; nil makes none.
	Trace *tracing.Tracer
	// Bus, if not nil, takes all events besides; BusName is its name.
	Bus     Bus
	BusName string
	// Rows is the outbox; nil: the engine has none.
	Rows operator.Outbox
	// Bell wakes readers of the feed of events in this process; nil: they poll.
	Bell *events.Bell
	// keepEvents is how long events are kept; 0: the default.
	keepEvents time.Duration
	// Keys is the key ring that all functions of a process share, so that deliver signs
	// with a replaced key at once. nil: each function gets a ring of its own.
	Keys *keys.Ring
	// Faster is keys.Options.Faster.
	Faster func(crypto.Signer) crypto.Signer
	// Now is the clock; default the wall clock.
	Now func() time.Time
	// Date is the clock of signatures, which others compare with theirs; default Now.
	Date func() time.Time
	// Random returns numbers in [0, 1) for jitter; default math/rand/v2.
	Random func() float64
}

// Bus is an event bus.
type Bus interface {
	Put(ctx context.Context, all []BusEvent) error
}

// BusEvent is an event for a Bus.
type BusEvent struct {
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

// Wall is the wall clock. Go's times have the monotonic clock, too, and compare by it; but
// that clock stops while a Lambda is frozen and while a laptop sleeps. A process that wakes
// up would trust what it knew of hosts and keys before, and leases that others know to be
// over.
func Wall() time.Time { return time.Now().Round(0) }

func (p Ports) random() func() float64 {
	if p.Random == nil {
		return rand.Float64
	}
	return p.Random
}

func (p Ports) store() *store.Store {
	return store.New(p.Table, p.now()).Alone(p.Alone).Telling(p.keepEvents, p.Bell)
}

// Index makes dead letters of versions without an index by host found by their host, and keys
// of versions without a list of keys listed. It reads them all, once; later calls read two
// items. partitions is Store.IndexKeys's.
func (p Ports) Index(ctx context.Context, partitions func(ctx context.Context, prefix string) ([]string, error)) error {
	letters, errLetters := p.store().IndexDeadLetters(ctx)
	ks, errKeys := p.store().IndexKeys(ctx, partitions)
	if letters+ks > 0 {
		p.Log.InfoContext(ctx, "indexed what an earlier version has left: dead letters by their host, keys by their id", "dead_letters", letters, "keys", ks)
	}
	return errors.Join(errLetters, errKeys)
}

func (p Ports) ring() *keys.Ring {
	if p.Keys != nil {
		return p.Keys
	}
	return p.NewRing()
}

// NewRing returns a key ring for a process.
func (p Ports) NewRing() *keys.Ring {
	return keys.New(p.store(), p.Sealer, keys.Options{Now: p.now(), Faster: p.Faster})
}

// SealIn sets the sealer of a process without KMS, which seals with a key in a file. It
// makes the file only for a table that has never had a sealing key.
func (p *Ports) SealIn(ctx context.Context, file string) error {
	s, err := keys.OpenLocalSealerOf(ctx, file, p.store())
	if err != nil {
		return err
	}
	p.Sealer = s
	return nil
}

// OpenIn is SealIn for a table that is only read: nothing is made. The sealer of a table that
// has never had a sealing key opens nothing.
func (p *Ports) OpenIn(ctx context.Context, file string) error {
	s, err := keys.ProvenLocalSealer(ctx, file, p.store())
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

// addresses is the part of an HTTP client's configuration that says what it may dial.
func (p Ports) addresses(o config.Outbound) outbound.Config {
	return outbound.Config{AllowPrivate: p.AllowPrivate, AllowHTTP: o.PlainHTTP, Allow: o.Allow, Proxy: o.Proxy.URL, Onion: o.Onion.URL}
}

// client is the HTTP client for requests to other servers. hosts knows which of them have
// accepted deliveries; nil: nobody knows. timeout is the longest that any caller needs; a
// request may set a shorter one. The client reads at most maxBody bytes of an answer.
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
