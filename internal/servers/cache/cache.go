// Package cache is what one process knows of other servers: their shared states, cached
// for seconds, and what the process itself has learnt and not saved yet.
//
// Strangers choose the hosts, so the cache is bounded. What the process has learnt counts
// at once, before it is saved, so that the next delivery to a host that has just failed
// is spared.
package cache

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/servers/circuit"
)

// Hosts has the states of servers as this process knows them. It is safe for concurrent
// use.
type Hosts struct {
	store circuit.Store
	rules circuit.Rules
	now   func() time.Time
	ttl   time.Duration
	log   *slog.Logger
	slots chan struct{} // of saves under way

	mu    sync.Mutex
	known map[string]*host
	// turn numbers questions to the store and saves, in order.
	turn uint64
}

type host struct {
	stored circuit.State
	loaded time.Time
	// turn is that of the question that stored answers, or of the save that made it. An
	// answer to an earlier question is older, however late it comes.
	turn uint64
	// unsaved is what was learnt and waits to be saved; saving is what is being saved.
	// If unsaved has successes only, they are those since began, within the circuit's
	// window.
	unsaved, saving unsaved
	began           time.Time
	// written is when the state was last saved.
	written time.Time
	// saved is closed when the save under way has ended; nil if there is none.
	saved chan struct{}
	// Requests in the minute that began at minute, and in the one before.
	minute      time.Time
	count, last int
	// accepted is when the host last accepted a delivery; zero if it has failed one since.
	accepted time.Time
}

// mostHosts is how many hosts the cache holds. Strangers choose the hosts.
const mostHosts = 20_000

// TTL is how long a host's state is trusted without another look, by default.
const TTL = 5 * time.Second

// New returns a cache of the states in store, each trusted for ttl.
func New(store circuit.Store, rules circuit.Rules, ttl time.Duration, now func() time.Time, log *slog.Logger) *Hosts {
	return &Hosts{store: store, rules: rules, now: now, ttl: ttl, log: log, slots: make(chan struct{}, savesAtOnce), known: make(map[string]*host)}
}

func (h *Hosts) view(key string, now time.Time) circuit.State {
	k, ok := h.known[key]
	if !ok {
		return circuit.State{Key: key, Phase: circuit.Healthy}
	}
	s, _, _ := k.saving.apply(k.stored, h.rules, now)
	s, _, _ = k.unsaved.apply(s, h.rules, now)
	return s
}

// State returns what is known of a server.
func (h *Hosts) State(key string) circuit.State {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.view(key, h.now())
}

// load makes sure that nothing known of the servers is older than the cache
// allows, or at all old if fresh is set. It returns what it read. A caller that
// asked for fresh states has to use those: another goroutine may have changed the cache
// since.
func (h *Hosts) load(ctx context.Context, fresh bool, keys ...string) (map[string]circuit.State, error) {
	now := h.now()
	var stale []string
	h.mu.Lock()
	for _, key := range keys {
		if k, ok := h.known[key]; fresh || !ok || now.Sub(k.loaded) >= h.ttl {
			stale = append(stale, key)
		}
	}
	turn := h.next()
	h.mu.Unlock()
	if len(stale) == 0 {
		return nil, nil
	}
	found, err := h.store.Servers(ctx, stale...)
	if err != nil {
		return nil, fmt.Errorf("load server states: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.evict(now)
	for _, key := range stale {
		if k := h.entry(key, now); k.turn < turn {
			k.keep(circuit.Of(found, key), now, turn)
		}
	}
	return found, nil
}

func (h *Hosts) next() uint64 {
	h.turn++
	return h.turn
}

func (k *host) keep(s circuit.State, now time.Time, turn uint64) {
	k.stored, k.loaded, k.turn = s, now, turn
}

func (h *Hosts) entry(key string, now time.Time) *host {
	k, ok := h.known[key]
	if !ok {
		k = &host{stored: circuit.State{Key: key, Phase: circuit.Healthy}, loaded: now}
		h.known[key] = k
	}
	return k
}

func (h *Hosts) evict(now time.Time) {
	if len(h.known) < mostHosts {
		return
	}
	for key, k := range h.known {
		if now.Sub(k.loaded) >= h.ttl && k.saved == nil && k.unsaved.plain() {
			delete(h.known, key)
		}
	}
}

// Set keeps a state that was just saved.
func (h *Hosts) Set(s circuit.State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	h.entry(s.Key, now).keep(s, now, h.next())
}

// LoadFor loads the states of the targets' hosts. If a host has inboxes with states of
// their own, it loads the states of the targets' inboxes, too. With fresh nothing comes
// from the cache. LoadFor returns the states of hosts that it has read.
func (h *Hosts) LoadFor(ctx context.Context, fresh bool, ts []activity.Target) (map[string]circuit.State, error) {
	hosts := map[string]bool{}
	for _, t := range ts {
		hosts[circuit.HostKey(t.Host())] = true
		for _, key := range circuit.Families(t.Host()) {
			hosts[key] = true
		}
	}
	read, err := h.load(ctx, fresh, slices.Collect(maps.Keys(hosts))...)
	if err != nil {
		return nil, err
	}
	inboxes := map[string]bool{}
	for _, t := range ts {
		if h.State(circuit.HostKey(t.Host())).InboxesUntil.After(h.now()) {
			inboxes[circuit.InboxKey(t.Inbox)] = true
		}
	}
	if len(inboxes) > 0 {
		_, err = h.load(ctx, fresh, slices.Collect(maps.Keys(inboxes))...)
	}
	return read, err
}

// Decision returns what a delivery to a target has to do, and the state that decides: the
// block of a domain above its host, or the host's state or, if the host accepts
// deliveries, the inbox's.
func (h *Hosts) Decision(t activity.Target, now time.Time) (circuit.State, circuit.Decision) {
	for _, key := range circuit.Families(t.Host()) {
		if s := h.State(key); s.Phase == circuit.Blocked {
			return s, circuit.Refuse
		}
	}
	s := h.State(circuit.HostKey(t.Host()))
	if decision := s.Decision(now); decision != circuit.Send || !s.InboxesUntil.After(now) {
		return s, decision
	}
	s = h.State(circuit.InboxKey(t.Inbox))
	return s, s.Decision(now)
}
