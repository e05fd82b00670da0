package admission

import (
	"container/list"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

type class int

const (
	// prompt hosts accepted deliveries lately and answer within a second.
	prompt class = iota
	// others are all other hosts: unknown, slow, failing or hanging.
	others
)

// plan decides which attempt begins next. It is a pure state machine, but for spare: it starts nothing
// and waits for nothing. Times are since an epoch. Its methods leave in todo what the caller has to act
// on.
type plan struct {
	b Bounds

	under  int           // attempts under way
	old    int           // of them, old ones
	others int           // attempts at others, and the old ones that take places
	young  list.List     // of *Attempt under way that are signed and not old, by began
	firsts int           // sites with attempts at prompt hosts: one of each takes no place
	spare  *atomic.Int64 // attempts beyond Places, of all queues; each queue may exceed Spare by one
	looked time.Duration // when advance was last called

	computing [2]int // attempts under way that are not signed yet, by class
	workloads map[string]*workload
	idle      list.List // of *workload
	idleNext  bool      // the next place is for one of idle

	hosts   map[string]*host
	sites   map[string]*site
	lanes   map[Lane]*bound
	waiting [2][]*host // hosts with attempts that wait, by class
	classes [2]bound
	memory  memory
	arrived uint64
	until   time.Duration // no waiting attempt goes back earlier; 0: none does

	todo
}

func newPlan(b Bounds) *plan {
	return &plan{
		b: b.complete(), hosts: map[string]*host{}, sites: map[string]*site{}, lanes: map[Lane]*bound{}, workloads: map[string]*workload{},
		spare: new(atomic.Int64), memory: memory{looked: -lookEvery}, classes: [2]bound{newBound(), newBound()},
	}
}

func (p *plan) lane(of Lane) *bound {
	l, ok := p.lanes[of]
	if !ok {
		b := newBound()
		l, p.lanes[of] = &b, &b
	}
	return l
}

// count adds n to all counts of attempts under way.
func (p *plan) count(a *Attempt, n int) {
	h := a.host
	p.spare.Add(int64(max(p.under+n, p.b.Places) - max(p.under, p.b.Places)))
	p.under += n
	p.lane(a.Lane).under += n
	h.under += n
	of := &h.site.bounds[a.class]
	if of.under += n; a.class == prompt && of.under == max(n, 0) { // it is the only one
		p.firsts += n
	}
	p.classes[a.class].under += n
	a.inbox.under += n
	p.workload(a.Activity).under += n
	if a.class == others {
		p.others += n
	}
}

// countOld adds n to all counts of old attempts. They count among the others, but for one of each site
// at prompt hosts: it takes no place.
func (p *plan) countOld(a *Attempt, n int) {
	p.old += n
	p.lane(a.Lane).old += n
	a.inbox.old += n
	of := &a.host.site.bounds[a.class]
	if of.old += n; a.class == prompt && of.old > max(n, 0) { // it is not the only one
		p.others += n
	}
}

// enter adds an attempt to those that wait, and begins what can begin.
func (p *plan) enter(a *Attempt, until, now time.Duration) {
	p.age(now)
	p.arrived++
	a.host, a.arrived, a.entered, a.until, a.waits = p.host(a, now), p.arrived, now, until, true
	p.judge(a.host, now)
	if until > 0 && (p.until == 0 || until < p.until) {
		p.until = until
	}
	a.host.push(a)
	p.wait(a.host, 1)
	p.lane(a.Lane).waits++
	a.sibling = p.workload(a.Activity).waiting.PushBack(a)
	p.settle(a.Activity)
	p.dispatch(now)
}

// wait adds n to the attempts that wait for a host.
func (p *plan) wait(h *host, n int) {
	h.waits += n
	h.site.bounds[h.class].waits += n
	p.classes[h.class].waits += n
	list := &p.waiting[h.class]
	switch last := len(*list) - 1; {
	case h.waits > 0 && h.at < 0:
		h.at = len(*list)
		*list = append(*list, h)
	case h.waits == 0 && h.at >= 0:
		(*list)[h.at], (*list)[last].at = (*list)[last], h.at
		(*list)[last] = nil
		*list, h.at = (*list)[:last], -1
	}
}

func (p *plan) judge(h *host, now time.Duration) {
	c := others
	switch {
	case now-h.accepted >= proof:
		h.window = min(h.window, p.b.PerHost)
	case h.trust > 0:
		c = prompt
	}
	if c != h.class {
		n := h.waits
		p.wait(h, -n)
		h.class = c
		p.wait(h, n)
	}
}

func (p *plan) remove(a *Attempt) {
	a.waits = false
	a.host.pull(a)
	p.wait(a.host, -1)
	p.lane(a.Lane).waits--
	p.workload(a.Activity).waiting.Remove(a.sibling)
	p.settle(a.Activity)
	if a.Ticket != nil {
		p.pass(a.Ticket, 1)
	}
}

func (p *plan) withdraw(a *Attempt, now time.Duration) bool {
	if !a.waits {
		return false
	}
	p.remove(a)
	p.dispatch(now)
	return true
}

func (p *plan) begin(a *Attempt, now time.Duration) {
	h := a.host
	h.ring.MoveToBack(a.inbox.ring)
	a.began, a.class, a.computes = now, h.class, true
	a.inbox.alone = a.Alone
	p.computing[a.class]++
	p.count(a, 1)
	p.remove(a)
	for _, b := range p.bounds(a) {
		b.pace.count(now)
		b.usual.count(now)
	}
	a.charged = h.mean.usual()
	p.charge(h, a.charged, now)
	p.started = append(p.started, a)
}

// signed says that an attempt's request is signed. Its time begins now: computing says nothing
// about a host.
func (p *plan) signed(a *Attempt, now time.Duration) {
	if !a.computes {
		return
	}
	p.age(now)
	a.began, a.computes, a.young = now, false, p.young.PushBack(a)
	p.computing[a.class]--
	p.dispatch(now)
}

func (p *plan) leave(a *Attempt, r Result, now time.Duration) {
	p.age(now)
	took := now - a.began
	p.count(a, -1)
	p.settle(a.Activity)
	a.inbox.alone = false
	if a.Alone && r == Accepted {
		a.inbox.together()
	}
	a.host.drop(a.inbox)
	old := false
	switch {
	case a.computes: // it made no request
		p.computing[a.class]--
	case a.young != nil:
		p.young.Remove(a.young)
	default:
		old = true
		p.countOld(a, -1)
		a.host.tookLess(timeout - took)
	}
	p.charge(a.host, took-a.charged, now)
	a.host.learn(a, r, took, old, p.b, now)
	p.judge(a.host, now)
	p.dispatch(now)
}

// age counts attempts that have become old.
func (p *plan) age(now time.Duration) {
	for el := p.young.Front(); el != nil; el = p.young.Front() {
		a := el.Value.(*Attempt)
		if now-a.began < quick {
			return
		}
		p.young.Remove(el)
		a.young = nil
		p.countOld(a, 1)
		a.host.distrust()
		a.host.took(timeout)
		p.judge(a.host, now)
	}
}

func (p *plan) advance(now time.Duration) {
	p.age(now)
	if p.until > 0 && p.until <= now {
		p.until = 0
		for _, h := range slices.Concat(p.waiting[:]...) {
			for a := range h.attempts() {
				switch {
				case a.until > 0 && a.until <= now:
					p.sendBack(a, now)
				case a.until > 0 && (p.until == 0 || a.until < p.until):
					p.until = a.until
				}
			}
		}
	}
	p.looked = now
	p.relieve(now)
	p.dispatch(now)
}

// due is when advance has to be called next; 0: never.
func (p *plan) due() (at time.Duration) {
	soonest := func(t time.Duration) {
		if t > 0 && (at == 0 || t < at) {
			at = t
		}
	}
	if el := p.young.Front(); el != nil {
		soonest(el.Value.(*Attempt).began + quick)
	}
	soonest(p.until)
	// Other queues give spare ones back without a word.
	if p.under+p.b.Places/8 >= p.b.Places && len(p.waiting[prompt])+len(p.waiting[others]) > 0 && p.b.Spare > 0 {
		soonest(p.looked + lookEvery)
	}
	if m := &p.memory; m.waits() {
		soonest(max(m.looked, m.last) + lookEvery)
	}
	return at
}

func (p *plan) dispatch(now time.Duration) {
	for {
		var next *Attempt
		if p.idleNext {
			next = p.firstOfIdle()
		}
		if next == nil {
			next = p.next()
		}
		if next == nil {
			return
		}
		p.idleNext = !p.idleNext
		p.begin(next, now)
	}
}

// next is the next attempt at the host that has held least; nil: none may begin.
func (p *plan) next() (next *Attempt) {
	var best *host
	for c, hosts := range p.waiting {
		if p.processors(class(c)) <= 0 {
			continue
		}
		for _, h := range hosts {
			if h.under >= h.window || p.free(h) <= 0 || best != nil && !h.before(best) || !p.shared(h) {
				continue
			}
			for el := h.ring.Front(); el != nil; el = el.Next() {
				if a := el.Value.(*inbox).waiting.Front().Value.(*Attempt); p.fits(a) {
					best, next = h, a
					break
				}
			}
		}
	}
	return next
}

func (p *plan) charge(h *host, d, now time.Duration) {
	if d > 0 {
		h.held, h.site.held = h.held.plus(d, now), h.site.held.plus(d, now)
	}
}

// bound counts the attempts that share one bound: a host, a site, a class or a lane.
type bound struct {
	under, old, waits int
	pace, usual       pace          // at which attempts begin: of the last second, and usually
	backAt            time.Duration // the latest time given to an attempt that was sent back
}

func newBound() bound { return bound{pace: pace{half: time.Second / 4}, usual: pace{half: timeout}} }

func (p *plan) bounds(a *Attempt) [4]*bound {
	h := a.host
	return [4]*bound{&h.bound, &h.site.bounds[h.class], &p.classes[h.class], p.lane(a.Lane)}
}

// binds reports which of its bounds keep an attempt from beginning.
func (p *plan) binds(a *Attempt) (binds [4]bool) {
	h := a.host
	return [4]bool{
		h.under >= h.places(a) || a.inbox.under >= h.most(a.inbox, a),
		!p.shared(h),
		p.free(h) <= 0 || h.class == others && p.processors(others) <= 0,
		p.laneFull(a),
	}
}

// surplus is how many of those that wait at a bound do not begin within a second. Old attempts
// of a site free no places. If the site has none, a few may always stay.
func (p *plan) surplus(h *host, b *bound, now time.Duration) int {
	rate := int(b.pace.rate(now))
	switch s := h.site; {
	case b == &h.bound:
		rate = h.takes()
	case h.class == prompt && (b == &s.bounds[prompt] || b == &p.classes[prompt]):
		// The pace of a host that has just become prompt has not settled: the host begins more,
		// unless attempts at its site hang.
		young := b.under + 1
		if b.old > 0 {
			young = b.under - b.old
		}
		rate = max(rate, int(float64(young)*h.soon().Seconds()/s.mean.usual().Seconds()))
	case b != &s.bounds[h.class]:
	case s.old() > 0:
		under := s.bounds[prompt].under + s.bounds[others].under
		rate = rate * (under - s.old()) / under
	default:
		few := p.b.Waiting / 16
		if s.mean > 0 {
			few = min(few, int(time.Second/s.mean.usual()))
		}
		rate = max(rate, few)
	}
	return b.waits - rate
}

// sendBack sends an attempt back to its queue, until the attempts that were sent back before it
// have had their places at each full bound.
func (p *plan) sendBack(a *Attempt, now time.Duration) {
	a.why = p.stuck(a)
	h, window, early := a.host, a.host.mostWindow, a.Receives > 1
	if early {
		// The delivery waited before, so the host takes what its window allows.
		if window = h.window; window > p.b.PerHost {
			window = min(2*window, h.mostWindow)
		}
		window = min(window, h.ring.Len()*h.most(a.inbox, a))
	}
	// What is under way at its first receive has ended by the third. A delivery to a site that has
	// held nothing waits for no places of other sites, but for processors.
	a.back = max(a.entered+tick/2<<min(a.Receives, 8), now+quick)
	longest := longestWait
	switch {
	case early && a.why == inboxAlone:
		longest = longestTurn
	case early && (a.why == hostWindow || a.why == inboxShare):
		longest = min(longest<<min(a.Receives-2, 8), longestTurn)
	}
	binds := p.binds(a)
	for i, b := range p.bounds(a) {
		if binds[i] && (b != &p.classes[h.class] || a.why == allComputing && a.Receives >= receives || h.site.held != nothing) {
			rate := float64(window) / h.mean.usual().Seconds()
			if b != &h.bound {
				// This assumes that all attempts hang, unless more usually begin, and still do when
				// the delivery comes back.
				usual := b.usual.rate(now)
				if early {
					usual = min(usual, b.pace.rate(now))
				}
				rate = max(usual, float64(max(1, b.under))/timeout.Seconds())
				if a.why == allComputing {
					rate = max(rate, float64(p.b.Computing)/unsigned.Seconds())
				}
			}
			b.backAt = min(max(b.backAt, now+tick)+time.Duration(float64(time.Second)/rate), now+longest)
			a.back = max(a.back, b.backAt)
		}
	}
	a.back = min(a.back, now+longest)
	p.remove(a)
	p.sent = append(p.sent, a)
}

// pace is a moving rate of events, with the half-life half.
type pace struct {
	n    float64
	at   time.Duration
	half time.Duration
}

func (c *pace) count(now time.Duration) {
	c.rate(now)
	c.n++
}

// rate is in events per second.
func (c *pace) rate(now time.Duration) float64 {
	c.n *= math.Exp2(-float64(now-c.at) / float64(c.half))
	c.at = now
	return c.n * math.Ln2 / c.half.Seconds()
}
