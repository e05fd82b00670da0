package deliver

import (
	"context"
	"sync"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
)

// limiter bounds the attempts that this process has under way. An attempt counts
// in several pools at once and needs a place in each.
type limiter struct {
	mu    sync.Mutex
	pools map[pool]*places
}

// pool names a set of attempts by what they have in common. Fields that do not matter for
// the pool are empty. host is the name of a host, or the key of an inbox.
type pool struct {
	protocol   activity.Protocol
	host       string
	site       string
	queue      queue.Name
	invocation *invocation
}

// bound is how many attempts of a pool are under way at once; 0 is no bound.
type bound struct {
	pool
	size int
}

// places are those of one pool; users have one or wait for one.
type places struct {
	taken chan struct{}
	users int
}

func newLimiter() *limiter { return &limiter{pools: map[pool]*places{}} }

// enter takes a place in each pool, one after the other, which leave frees. It
// returns false, and takes none, if ctx ends before.
func (l *limiter) enter(ctx context.Context, bounds ...bound) (leave func(), ok bool) {
	var entered []bound
	leave = func() {
		for _, b := range entered {
			l.leave(b.pool)
		}
	}
	for _, b := range bounds {
		if b.size <= 0 {
			continue
		}
		if !l.places(b).take(ctx) {
			l.forget(b.pool)
			leave()
			return nil, false
		}
		entered = append(entered, b)
	}
	return leave, true
}

// take takes a place. A free place is taken even if ctx has ended.
func (p *places) take(ctx context.Context) bool {
	select {
	case p.taken <- struct{}{}:
		return true
	default:
	}
	select {
	case p.taken <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// places returns the places of a pool, with one more user.
func (l *limiter) places(b bound) *places {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, ok := l.pools[b.pool]
	if !ok {
		p = &places{taken: make(chan struct{}, b.size)}
		l.pools[b.pool] = p
	}
	p.users++
	return p
}

func (l *limiter) leave(of pool) {
	l.mu.Lock()
	p := l.pools[of]
	l.mu.Unlock()
	<-p.taken
	l.forget(of)
}

// forget drops a pool without users. Strangers choose the hosts, so pools must not pile up.
func (l *limiter) forget(of pool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.pools[of]
	if p.users--; p.users == 0 {
		delete(l.pools, of)
	}
}

// placeWait is how long a delivery waits for a place among those of its protocol:
// a server that is well frees several in that time.
const placeWait = 2 * time.Second

// ofSite is the bound of attempts at hosts of one site that have accepted nothing lately: a
// quarter of all, so that one owner of thousands of hosts that hang leaves places for others.
func (u *unit) ofSite(j *job) bound {
	site := u.unprovenSite(j)
	switch {
	case site == "":
		return bound{}
	case u.Limits.PerQueue > 0:
		return bound{pool{queue: u.from, site: site}, max(1, u.Limits.PerQueue/4)}
	}
	return bound{pool{invocation: u.invocation, site: site}, max(1, u.Limits.InFlight/4)}
}

// enter takes an attempt's place in each pool that it counts in; leave frees them.
//
// A protocol whose servers have no circuit has bounds of its own. One host can take only a
// part of the protocol's places, so a host that hangs leaves places for others. A delivery
// that finds no place within placeWait goes back to its queue, so it does not hold up its
// invocation.
func (u *unit) enter(ctx context.Context, j *job) (leave func(), ok bool) {
	p, r, l := u.a.Protocol, u.route, u.Limits
	soon, cancel := context.WithTimeout(ctx, placeWait)
	defer cancel()
	perHost := r.PerHost
	if perHost <= 0 || perHost > r.InFlight {
		perHost = r.InFlight
	}
	bounds := append(u.unproven(j), u.ofSite(j), bound{pool{protocol: p, host: j.host}, perHost}, bound{pool{protocol: p}, r.InFlight})
	leaveProtocol, ok := u.limiter.enter(soon, bounds...)
	switch {
	case !ok && ctx.Err() != nil:
		j.attempt = false // not begun: the process stops
		return nil, false
	case !ok:
		u.crowded(j, "waits for a place among those being sent")
		return nil, false
	}
	leaveAll, ok := u.limiter.enter(ctx,
		bound{pool{invocation: u.invocation, host: j.host}, l.PerHost},
		bound{pool{invocation: u.invocation}, l.InFlight},
		bound{pool{queue: u.from}, l.PerQueue})
	if !ok {
		leaveProtocol()
		j.attempt = false
		return nil, false
	}
	return func() { leaveAll(); leaveProtocol() }, true
}
