package deliver

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
)

// limiter bounds the attempts that this process has under way. An attempt counts
// in several pools at once and needs a place in each.
//
// An attempt that waits is an entry in a list. A goroutine for each would cost 8 to 16 KiB of
// stack, and tens of thousands may wait.
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
	activity   activity.ID
	queue      queue.Name
	invocation *invocation
}

// bound is how many attempts of a pool are under way at once; 0 is no bound, which entries
// leave out.
type bound struct {
	pool
	size int
	// wait is after how long an entry gives up that waits for this bound; 0 is never.
	wait time.Duration
}

// waiting returns bounds that are waited for no longer than wait.
func waiting(wait time.Duration, bounds ...bound) []bound {
	for i := range bounds {
		bounds[i].wait = wait
	}
	return bounds
}

// places are those of one pool.
type places struct {
	size, taken int
	waiting     list.List // of *entry, in the order in which they get a place
}

// entry is an attempt on its way into its pools, or in them.
type entry struct {
	// bounds are taken one after the other.
	bounds []bound
	// begin is called once, when all places are taken: then leave has to follow. refused is
	// called instead if the entry gives up. Neither may wait for anything.
	begin   func()
	refused func()
	// attempt, if not nil, is called after begin, on a goroutine of the limiter or, where
	// alone is set and no place had to be waited for, on that of the caller of enter. The
	// places are left when attempt has ended, then done is called.
	attempt, done func()
	alone         bool

	taken int           // places that it has
	waits *list.Element // in the list of bounds[taken]; nil: it waits for none
	timer *time.Timer   // ends that wait; nil: nothing does

	passed atomic.Bool // it does not count in the backlog any more
}

// add adds the bounds that there are.
func (e *entry) add(bounds ...bound) {
	for _, b := range bounds {
		if b.size > 0 {
			e.bounds = append(e.bounds, b)
		}
	}
}

func newLimiter() *limiter { return &limiter{pools: map[pool]*places{}} }

// enter takes a place in each pool for e, one after the other, and waits its turn where none
// is free. It returns at once, and reports whether e waits for the last of its places.
func (l *limiter) enter(e *entry) (waitsForLast bool) {
	l.mu.Lock()
	ready := l.advance(e)
	waitsForLast = e.taken == len(e.bounds)-1
	l.mu.Unlock()
	switch {
	case !ready:
	case e.alone:
		e.begin()
		e.attempt()
		l.leave(e)
		e.done()
	default:
		l.start(e)
	}
	return waitsForLast
}

// start begins e, which has its places.
func (l *limiter) start(e *entry) {
	e.begin()
	if e.attempt != nil {
		go l.work(e)
	}
}

// work makes the attempt of e, and then one of those that waited for its places, and so on:
// a goroutine whose stack has grown to what an attempt needs is worth keeping.
func (l *limiter) work(e *entry) {
	for next := e; next != nil; {
		e = next
		e.attempt()
		next = l.handOver(e)
		e.done()
	}
}

// handOver frees the places of e and starts who now has all, but one, which has begun when
// handOver returns it, for the caller to make its attempt.
func (l *limiter) handOver(e *entry) (next *entry) {
	l.mu.Lock()
	ready := l.free(e)
	l.mu.Unlock()
	for _, r := range ready {
		if next == nil && r.attempt != nil {
			r.begin()
			next = r
			continue
		}
		l.start(r)
	}
	return next
}

// advance takes places for e until one is missing. It reports whether e has all.
func (l *limiter) advance(e *entry) bool {
	for e.taken < len(e.bounds) {
		b := e.bounds[e.taken]
		p, ok := l.pools[b.pool]
		if !ok {
			p = &places{size: b.size}
			l.pools[b.pool] = p
		}
		if p.taken >= p.size {
			e.waits = p.waiting.PushBack(e)
			if at := e.taken; b.wait > 0 {
				e.timer = time.AfterFunc(b.wait, func() { l.giveUp(e, at) })
			}
			return false
		}
		p.taken++
		e.taken++
	}
	return true
}

// cancel ends the wait of e, if it waits.
func (l *limiter) cancel(e *entry) { l.giveUp(e, anywhere) }

// anywhere stands for whichever of its bounds an entry waits for.
const anywhere = -1

// giveUp ends the wait of e, if it waits for the bound with the number at.
func (l *limiter) giveUp(e *entry, at int) {
	l.mu.Lock()
	if e.waits == nil || at != anywhere && e.taken != at {
		l.mu.Unlock()
		return
	}
	l.pools[e.bounds[e.taken].pool].waiting.Remove(e.waits)
	e.waitsNoMore()
	ready := l.free(e)
	l.mu.Unlock()
	e.refused()
	l.startAll(ready)
}

// leave frees the places of e.
func (l *limiter) leave(e *entry) {
	l.mu.Lock()
	ready := l.free(e)
	l.mu.Unlock()
	l.startAll(ready)
}

func (l *limiter) startAll(ready []*entry) {
	for _, e := range ready {
		l.start(e)
	}
}

// free gives the places of e to those who wait for them, and returns who now has all.
func (l *limiter) free(e *entry) (ready []*entry) {
	for _, b := range e.bounds[:e.taken] {
		p := l.pools[b.pool]
		if first := p.waiting.Front(); first != nil {
			next := p.waiting.Remove(first).(*entry)
			next.waitsNoMore()
			next.taken++
			if l.advance(next) {
				ready = append(ready, next)
			}
		} else if p.taken--; p.taken == 0 {
			// Strangers choose the hosts, so pools must not pile up.
			delete(l.pools, b.pool)
		}
	}
	e.taken = 0
	return ready
}

func (e *entry) waitsNoMore() {
	e.waits = nil
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
}

// placeWait is how long a delivery waits for a place among those of its host in its queue, of
// its site or of its protocol: a server that is well frees several in that time.
const placeWait = 2 * time.Second

// turnWait is how long a delivery waits for a place among those of its activity at its host: a
// server that answers in half a second gets 1,000 inboxes in that time. Nobody but this activity
// waits for such a place, so a delivery that waits for one keeps others from little.
const turnWait = 15 * time.Second

// ofSite is the bound of attempts at hosts of one site that have accepted nothing lately: a
// quarter of all, so that one owner of thousands of hosts that hang leaves places for others.
func (u *unit) ofSite(j *job) bound {
	site := u.unprovenSite(j)
	switch {
	case site == "":
		return bound{}
	case u.Limits.PerQueue > 0:
		return bound{pool: pool{queue: u.from, site: site}, size: max(1, u.Limits.PerQueue/4)}
	}
	return bound{pool: pool{invocation: u.invocation, site: site}, size: max(1, u.Limits.InFlight/4)}
}

// perHosts is how many times PerHost all invocations of a queue have at one host. With fewer, a
// large server that is slow would get its deliveries much later.
const perHosts = 40

// ofActivity is the bound of attempts of one activity at one host, which may have thousands of its
// inboxes: those of four invocations, so that a few such hosts leave places to others.
func (u *unit) ofActivity(j *job) bound {
	if u.Limits.PerQueue == 0 {
		return bound{}
	}
	return bound{pool: pool{queue: u.from, activity: u.a.ID, host: j.host}, size: 4 * u.Limits.PerHost}
}

// ofHost is the bound of attempts at one host by all invocations of a queue, of which this
// process has hundreds where PerQueue is set: half of all at most. A delivery that does not soon
// get one of these places goes back to its queue, or those to a host that takes everything, but
// slowly, would hold all places of messages.
func (u *unit) ofHost(j *job) bound {
	if u.Limits.PerQueue == 0 {
		return bound{}
	}
	return bound{pool: pool{queue: u.from, host: j.host}, size: max(1, min(perHosts*u.Limits.PerHost, u.Limits.PerQueue/2))}
}

// enter makes an attempt of j as soon as it has a place in each pool that it counts in, on
// another goroutine unless j is alone. done is called when the attempt has ended, or will not
// be made.
//
// A protocol whose servers have no circuit has bounds of its own. One host can take only a
// part of the protocol's places, so a host that hangs leaves places for others. A delivery
// that finds no place within placeWait goes back to its queue, so it does not hold up its
// invocation.
func (u *unit) enter(ctx context.Context, j *job, attempt, done func()) *entry {
	p, r, l := u.a.Protocol, u.route, u.Limits
	perHost := r.PerHost
	if perHost <= 0 || perHost > r.InFlight {
		perHost = r.InFlight
	}
	ofInvocation, ofQueue := pool{invocation: u.invocation}, pool{queue: u.from}
	e := &entry{bounds: make([]bound, 0, 4), attempt: attempt, done: done, alone: len(u.jobs) == 1}
	e.add(waiting(placeWait, u.unproven(j)...)...)
	e.add(waiting(placeWait, u.ofSite(j), bound{pool: pool{protocol: p, host: j.host}, size: perHost}, bound{pool: pool{protocol: p}, size: r.InFlight})...)
	e.add(bound{pool: pool{invocation: u.invocation, host: j.host}, size: l.PerHost})
	e.add(waiting(turnWait, u.ofActivity(j))...)
	e.add(waiting(placeWait, u.ofHost(j))...)
	e.add(bound{pool: ofInvocation, size: l.InFlight}, bound{pool: ofQueue, size: l.PerQueue})
	pass := func() {
		if e.passed.CompareAndSwap(false, true) {
			u.ahead.pass(1)
		}
	}
	e.begin = pass
	e.refused = func() {
		if ctx.Err() != nil {
			j.attempt = false // not begun: the process stops
		} else {
			u.crowded(j, "waits for a place among those being sent")
		}
		pass()
		done()
	}
	if last := u.limiter.enter(e); !last {
		pass()
	}
	return e
}
