package peers

import (
	"context"
	"errors"
	"sync"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/protocol/sipher/wire"
)

// Each registration makes us send a request to a server that a stranger chose. These bounds, each for
// one process, protect that server and other callers.
const (
	// MaxCallbacks is how many servers are called back at once.
	MaxCallbacks = 32
	// MaxOfCaller is how many registrations of one caller are worked on at once.
	MaxOfCaller = 4

	// A server is called back at most TargetRate times a minute, and TargetBurst times at once; all
	// servers of one site (activity.SiteOf) together at most SiteRate times a minute. For CardAge
	// after a server's answer, registrations get the result of that answer.
	TargetRate  = 2
	TargetBurst = 3
	SiteRate    = 10
	CardAge     = time.Minute

	// maxTargets bounds the answers that are remembered.
	maxTargets = 1000
)

// errBusy refuses a registration because a bound is reached.
type errBusy struct {
	why  string
	wait time.Duration
	// mine: the caller, or the server that the caller registers, has reached the bound.
	mine bool
}

func (e *errBusy) Error() string { return e.why }

// callbacks asks servers that register themselves for their cards: anybody can register any URL.
type callbacks struct {
	http    Exchange
	now     func() time.Time
	slots   chan struct{}
	servers *RateLimit
	sites   *RateLimit

	mu      sync.Mutex
	callers map[string]int
	targets map[string]*target
}

// target is what one server answered last.
type target struct {
	// busy is held while the server is called.
	busy chan struct{}
	at   time.Time // zero before the first answer
	card wire.Card
	err  error
}

func newCallbacks(http Exchange, now func() time.Time) *callbacks {
	return &callbacks{
		http: http, now: now, slots: make(chan struct{}, MaxCallbacks),
		servers: NewRateLimit(TargetRate, TargetBurst, now), sites: NewRateLimit(SiteRate, SiteRate, now),
		callers: map[string]int{}, targets: map[string]*target{},
	}
}

// Confirm asks the server at claim.URL for its card, unless its last answer is fresh enough. The
// error is an *errBusy, or what the server answered.
func (c *callbacks) Confirm(ctx context.Context, caller string, claim wire.Card) (wire.Card, error) {
	leave, ok := c.enter(caller)
	if !ok {
		return wire.Card{}, &errBusy{"too many registrations at once from this address", DiscoveryTimeout, true}
	}
	defer leave()
	t := c.target(claim.URL)
	select {
	case t.busy <- struct{}{}:
		defer func() { <-t.busy }()
	case <-ctx.Done():
		return wire.Card{}, &errBusy{"the server is being asked already", DiscoveryTimeout, true}
	}
	fresh := !t.at.IsZero() && c.now().Sub(t.at) < CardAge
	if fresh && t.err == nil && t.card.SameKeys(claim) {
		return t.card, nil
	}
	if wait := c.servers.Allow(claim.URL); wait > 0 {
		if fresh {
			return t.card, t.err
		}
		return wire.Card{}, &errBusy{"too many registrations of this server", wait, true}
	}
	card, err := c.call(ctx, claim.URL)
	if busy := (*errBusy)(nil); !errors.As(err, &busy) {
		t.card, t.err, t.at = card, err, c.now()
	}
	return card, err
}

func (c *callbacks) call(ctx context.Context, server string) (wire.Card, error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	default:
		return wire.Card{}, &errBusy{"too many registrations at once", DiscoveryTimeout, false}
	}
	if wait := c.sites.Allow(activity.SiteOf(activity.HostOf(server))); wait > 0 {
		return wire.Card{}, &errBusy{"too many registrations of servers of this site", wait, true}
	}
	// The request goes on if the caller hangs up: other callers use its answer.
	return fetch(context.WithoutCancel(ctx), c.http, server)
}

// enter counts a registration of a caller as under way; leave ends that.
func (c *callbacks) enter(caller string) (leave func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.callers[caller] == MaxOfCaller {
		return nil, false
	}
	c.callers[caller]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.callers[caller]--; c.callers[caller] == 0 {
			delete(c.callers, caller)
		}
	}, true
}

// target returns the record of a server. If there are too many, the oldest unused one is removed.
func (c *callbacks) target(server string) *target {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.targets[server]; t != nil {
		return t
	}
	if len(c.targets) >= maxTargets {
		oldest := ""
		for name, t := range c.targets {
			if len(t.busy) == 0 && (oldest == "" || t.at.Before(c.targets[oldest].at)) {
				oldest = name
			}
		}
		delete(c.targets, oldest)
	}
	t := &target{busy: make(chan struct{}, 1)}
	c.targets[server] = t
	return t
}
