// Package cache holds what one process knows of other servers: their shared states, cached for
// seconds, and what the process has learnt and not saved yet.
//
// What was learnt counts at once, so that the next delivery to a failing host is spared. The
// cache is bounded, because strangers choose the hosts.
package cache

import (
	"container/list"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"fedpost/internal/servers/circuit"
)

// Hosts has the states of servers as this process knows them. It is safe for concurrent use.
type Hosts struct {
	store circuit.Store
	rules circuit.Rules
	now   func() time.Time
	ttl   time.Duration
	log   *slog.Logger

	mu    sync.Mutex
	known map[string]*host
	// accepting and others are the hosts of known, the one that was loaded longest ago first:
	// those that accepted the last delivery of this process, and all others.
	accepting, others list.List // of *host
	// pending has the hosts that Flush has to look at: something was learnt about them, and they
	// are not steady. known may have thousands of others.
	pending list.List // of *host
	timed   bool      // FlushSoon has set its timer
	failed  bool      // a save has failed since the last look at all that is pending
	// unbegun has the keys of the hosts that wait to be saved, savers counts the goroutines that
	// save.
	unbegun []string
	savers  int
	// sequence numbers reads and saves in order.
	sequence uint64
}

type host struct {
	stored circuit.State
	loaded time.Time
	// sequence is the number of the read or save that stored is from. The answer to an earlier read
	// may come later.
	sequence uint64
	// unsaved was learnt and waits to be saved; saving is being saved. If unsaved has successes
	// only, they are those since began, within the circuit's window.
	unsaved, saving unsaved
	began           time.Time
	// observed is when an attempt was last counted, written when the state was last saved.
	observed time.Time
	written  time.Time
	// in is Hosts.accepting or Hosts.others, at the place there, pending that in Hosts.pending.
	in          *list.List
	at, pending *list.Element
	// saved is closed when the save under way has ended; nil: none is.
	saved chan struct{}
	// Accepted deliveries in the minute from minute on, and in the one before.
	minute      time.Time
	count, last int
	// accepted is when the host last accepted a delivery; zero: it has failed one since.
	accepted time.Time
	took     string
	tookAt   time.Time
	// asExpected is the inbox that last accepted the signature form tried first, and that form.
	asExpected inboxForm
}

// The bounds of what is remembered of hosts, whose names strangers choose: of those that accept, so
// that they are known as such, and of all others, which are read again after the TTL anyway.
const (
	mostAccepting = 20_000
	mostOthers    = 8_000
)

// TTL is the default of how long a state is used without another read.
const TTL = 5 * time.Second

// New returns a cache of the states in store, each used for ttl.
func New(store circuit.Store, rules circuit.Rules, ttl time.Duration, now func() time.Time, log *slog.Logger) *Hosts {
	return &Hosts{store: store, rules: rules, now: now, ttl: ttl, log: log, known: make(map[string]*host)}
}

func (h *Hosts) view(key string, now time.Time) circuit.State {
	k, ok := h.known[key]
	if !ok {
		return circuit.State{Key: key, Phase: circuit.Healthy}
	}
	if k.steady() {
		return k.stored
	}
	s, _, _ := k.saving.apply(k.stored, h.rules, now)
	s, _, _ = k.unsaved.apply(s, h.rules, now)
	return s
}

// State returns the state of a server as this process knows it.
func (h *Hosts) State(key string) circuit.State {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.view(key, h.now())
}

// load reads the states that are older than the cache allows, or all with fresh, and returns what
// it has read. A caller with fresh has to use the result, because other goroutines may change the
// cache.
func (h *Hosts) load(ctx context.Context, fresh bool, keys ...string) (map[string]circuit.State, error) {
	now := h.now()
	var stale []string
	h.mu.Lock()
	for _, key := range keys {
		if k, ok := h.known[key]; fresh || !ok || lasted(k.loaded, now, h.ttl) {
			stale = append(stale, key)
		}
	}
	sequence := h.next()
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
		if k := h.entry(key, now); k.sequence < sequence {
			h.keep(k, circuit.Of(found, key), now, sequence)
		}
	}
	return found, nil
}

// lasted reports whether d has passed since a time, or the clock was set back by more than d.
func lasted(since, now time.Time, d time.Duration) bool { return now.Sub(since).Abs() >= d }

func (h *Hosts) next() uint64 {
	h.sequence++
	return h.sequence
}

func (h *Hosts) keep(k *host, s circuit.State, now time.Time, sequence uint64) {
	k.stored, k.loaded, k.sequence = s, now, sequence
	h.place(k)
	if k.unsaved.plain() && (s.DownSince.After(k.observed) || lasted(k.began, now, h.rules.Window)) {
		k.unsaved = nil // successes from before an outage, or long ago, do not end it
	}
	if len(k.unsaved) > 0 && !k.steady() {
		h.await(k) // its successes may change what another process has stored
	}
}

func (h *Hosts) entry(key string, now time.Time) *host {
	k, ok := h.known[key]
	if !ok {
		k = &host{stored: circuit.State{Key: key, Phase: circuit.Healthy}, loaded: now}
		h.known[key] = k
		h.place(k)
	}
	return k
}

// place moves a host to the end of its list.
func (h *Hosts) place(k *host) {
	if k.in != nil {
		k.in.Remove(k.at)
	}
	if k.in = &h.others; !k.accepted.IsZero() {
		k.in = &h.accepting
	}
	k.at = k.in.PushBack(k)
}

func (h *Hosts) evict(now time.Time) {
	h.evictFrom(&h.accepting, mostAccepting, now)
	h.evictFrom(&h.others, mostOthers, now)
}

// evictFrom forgets the hosts of a list that are above a bound: those that were loaded longest ago,
// and not lately, and of which nothing has to be saved.
func (h *Hosts) evictFrom(all *list.List, most int, now time.Time) {
	for range all.Len() - most + 1 {
		k := all.Front().Value.(*host)
		if !lasted(k.loaded, now, h.ttl) {
			return
		}
		if k.saved != nil || !k.unsaved.plain() {
			all.MoveToBack(k.at)
			continue
		}
		all.Remove(k.at)
		if k.pending != nil {
			h.pending.Remove(k.pending)
		}
		delete(h.known, k.stored.Key)
	}
}

// Set caches a state that was just saved.
func (h *Hosts) Set(s circuit.State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	h.keep(h.entry(s.Key, now), s, now, h.next())
}

// Keys are the keys of the states that decide about a delivery.
type Keys struct {
	Host     string
	Inboxes  []string // of the inbox, and of inbox or host with the signing key; they decide while the host accepts others
	families []string // of the domains above the host
}

// KeysOf returns the Keys of a delivery to a host (activity.Target.Host).
func KeysOf(host string, inboxes ...string) Keys {
	return Keys{Host: circuit.HostKey(host), families: circuit.Families(host), Inboxes: inboxes}
}

// LoadFor loads the states of hosts and, where inboxes have states of their own, of inboxes.
// With fresh, nothing comes from the cache. It returns the states of hosts that it has read.
func (h *Hosts) LoadFor(ctx context.Context, fresh bool, targets ...Keys) (map[string]circuit.State, error) {
	hosts := make(map[string]bool, len(targets))
	for _, p := range targets {
		hosts[p.Host] = true
		for _, key := range p.families {
			hosts[key] = true
		}
	}
	read, err := h.load(ctx, fresh, slices.Collect(maps.Keys(hosts))...)
	if err != nil {
		return nil, err
	}
	inboxes := map[string]bool{}
	for _, p := range targets {
		if h.State(p.Host).InboxesUntil.After(h.now()) {
			for _, key := range p.Inboxes {
				inboxes[key] = true
			}
		}
	}
	if len(inboxes) > 0 {
		_, err = h.load(ctx, fresh, slices.Collect(maps.Keys(inboxes))...)
	}
	return read, err
}

// Decision returns what a delivery has to do, and the state that decides: the block of a domain
// above the host, or the host's state, or the inbox's if the host accepts deliveries.
func (h *Hosts) Decision(p Keys, now time.Time) (circuit.State, circuit.Decision) {
	h.mu.Lock()
	defer h.mu.Unlock()
	seen := h.now()
	for _, key := range p.families {
		if s := h.view(key, seen); s.Phase == circuit.Blocked {
			return s, circuit.Refuse
		}
	}
	s := h.view(p.Host, seen)
	decision := s.Decision(now)
	if !s.InboxesUntil.After(now) {
		return s, decision
	}
	for i := 0; i < len(p.Inboxes) && decision == circuit.Send; i++ {
		s = h.view(p.Inboxes[i], seen)
		decision = s.Decision(now)
	}
	return s, decision
}
