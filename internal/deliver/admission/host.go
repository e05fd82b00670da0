package admission

import (
	"cmp"
	"container/list"
	"iter"
	"math"
	"slices"
	"time"
)

// What is remembered of hosts, whose names strangers choose.
const (
	mostHosts = 20_000
	// proof is how long a host counts as one that accepts deliveries.
	proof = time.Hour
	// A prompt acceptance earns trust, and an attempt that becomes old costs as much as hanging
	// acceptances earn. So a host that has just been met loses its kept places with the first
	// attempt that hangs, and a large one with several in a row.
	mostTrust, hanging = 8, 8
	// several failures in a row leave a host one attempt at a time in the end: what is under
	// way when its circuit opens is more than the circuit lets it cost. A protocol with bounds
	// of its own has no circuits.
	several = 3
)

// site is a registrable domain.
type site struct {
	name   string
	hosts  int // that are known
	old    int // attempts under way
	held   held
	mean   mean
	bounds [2]bound // by class
	young  [2]int   // attempts under way that are not old, by class
}

// host is what a process knows of a host, and the attempts at it.
type host struct {
	bound
	name       string
	site       *site
	class      class
	trust      int
	accepted   time.Duration // when it accepted last
	seen       time.Duration
	mean       mean
	failed     int // attempts since it accepted last
	window     int // places that it gets
	mostWindow int // that it may come to get
	held       held

	inboxes map[string]*inbox
	ring    list.List // of *inbox with attempts that wait, the one served last at the end
	at      int       // in plan.waiting; -1: nothing waits
}

// inbox has the attempts at one inbox.
type inbox struct {
	key     string
	under   int
	old     int
	alone   bool      // what is under way is one attempt that no other may be beside
	waiting list.List // of *Attempt
	ring    *list.Element
}

// most is how many attempts may be under way at an inbox, a among them.
func (h *host) most(i *inbox, a *Attempt) int {
	if a.Alone || i.alone {
		return 1
	}
	return part(h.places(a))
}

// places is how many attempts may be under way at a host, a among them.
func (h *host) places(a *Attempt) int {
	if most := a.Lane.PerHost; most > 0 {
		return min(h.window, most)
	}
	return h.window
}

// before reports whether a host is served before another: who has held least, by site where
// nothing is known for a host itself. Of a site, those that have waited before come first.
func (h *host) before(o *host) bool {
	a, b := h.site.held, o.site.held
	if h.class == prompt {
		a = h.held
	}
	if o.class == prompt {
		b = o.held
	}
	g, k := h.first(), o.first()
	return cmp.Or(
		cmp.Compare(a, b), cmp.Compare(min(k.Receives, receives), min(g.Receives, receives)), cmp.Compare(h.held, o.held),
		cmp.Compare(g.arrived, k.arrived),
	) < 0
}

// first is the attempt at the front of those that wait for a host.
func (h *host) first() *Attempt {
	return h.ring.Front().Value.(*inbox).waiting.Front().Value.(*Attempt)
}

// attempts yields those that wait for a host. Each may be taken out when it is yielded.
func (h *host) attempts() iter.Seq[*Attempt] {
	return func(yield func(*Attempt) bool) {
		for el := h.ring.Front(); el != nil; {
			i := el.Value.(*inbox)
			el = el.Next()
			for w := i.waiting.Front(); w != nil; {
				a := w.Value.(*Attempt)
				if w = w.Next(); !yield(a) {
					return
				}
			}
		}
	}
}

// host returns what is known of the host of an attempt.
func (p *plan) host(a *Attempt, now time.Duration) *host {
	if h, ok := p.hosts[a.Host]; ok {
		h.seen = now
		return h
	}
	p.tidy()
	name := cmp.Or(a.Site, a.Host)
	s, ok := p.sites[name]
	if !ok {
		s = &site{name: name, held: nothing, bounds: [2]bound{newBound(), newBound()}}
		p.sites[name] = s
	}
	s.hosts++
	h := &host{
		bound: newBound(), name: a.Host, site: s, class: others, seen: now, held: nothing, at: -1, inboxes: map[string]*inbox{},
		window: p.b.PerHost, mostWindow: p.b.PerHostMost,
	}
	p.hosts[a.Host] = h
	return h
}

// tidy forgets hosts where there are too many: a quarter of them, and their sites. Those that are
// not prompt go first, then those that were not met for longest.
func (p *plan) tidy() {
	if len(p.hosts) < mostHosts {
		return
	}
	var idle []*host
	for _, h := range p.hosts {
		if h.under == 0 && h.waits == 0 {
			idle = append(idle, h)
		}
	}
	slices.SortFunc(idle, func(a, b *host) int {
		return cmp.Or(cmp.Compare(b.class, a.class), cmp.Compare(a.seen, b.seen))
	})
	for _, h := range idle[:min(len(idle), mostHosts/4)] {
		delete(p.hosts, h.name)
		if h.site.hosts--; h.site.hosts == 0 {
			delete(p.sites, h.site.name)
		}
	}
}

// push adds an attempt to those that wait.
func (h *host) push(a *Attempt) {
	i, ok := h.inboxes[a.Inbox]
	if !ok {
		i = &inbox{key: a.Inbox}
		h.inboxes[a.Inbox] = i
	}
	// Who comes back has waited before.
	before := i.waiting.Back()
	for before != nil && before.Value.(*Attempt).Receives < a.Receives {
		before = before.Prev()
	}
	if a.inbox = i; before == nil {
		a.element = i.waiting.PushFront(a)
	} else {
		a.element = i.waiting.InsertAfter(a, before)
	}
	if i.ring == nil {
		i.ring = h.ring.PushBack(i)
	}
}

// pull takes an attempt out of those that wait.
func (h *host) pull(a *Attempt) {
	i := a.inbox
	i.waiting.Remove(a.element)
	a.element = nil
	if i.waiting.Len() == 0 {
		h.ring.Remove(i.ring)
		i.ring = nil
		h.drop(i)
	}
}

// drop forgets an inbox at which there is nothing.
func (h *host) drop(i *inbox) {
	if i.under == 0 && i.waiting.Len() == 0 {
		delete(h.inboxes, i.key)
	}
}

// mean is how long an attempt takes: later ones count more.
type mean time.Duration

// usual is the mean; of what has shown nothing half a second is expected.
func (m mean) usual() time.Duration { return cmp.Or(time.Duration(m), time.Second/2) }

func (m *mean) took(d time.Duration) {
	if *m == 0 {
		*m = mean(d)
	}
	*m = max(*m+(mean(d)-*m)/8, mean(time.Millisecond))
}

func (h *host) took(d time.Duration) {
	h.mean.took(d)
	h.site.mean.took(d)
}

// soon is how long attempts at a host may wait where others wait for memory. Attempts at prompt
// hosts make room steadily.
func (h *host) soon() time.Duration {
	if h.class == prompt {
		return 2 * quick
	}
	return quick
}

// tookLess takes back what was expected of an attempt that became old.
func (h *host) tookLess(d time.Duration) {
	for _, m := range []*mean{&h.mean, &h.site.mean} {
		*m = max(*m-mean(max(d, 0))/8, mean(quick))
	}
}

// takes is how many more attempts a host takes soon, as it may accept what it gets and get more. Of
// a host that has shown nothing the best is expected.
func (h *host) takes() int {
	if h.mean == 0 {
		return math.MaxInt
	}
	rounds := h.soon().Seconds() / time.Duration(h.mean).Seconds()
	return int(min(float64(h.window)*(math.Exp2(rounds)-1), float64(h.mostWindow)*rounds))
}

// distrust counts against a host's promptness.
func (h *host) distrust() { h.trust = max(h.trust-hanging, -hanging) }

// learn notes how an attempt has ended.
func (h *host) learn(a *Attempt, r Result, took time.Duration, old bool, b Bounds, now time.Duration) {
	if r == Unsent {
		return
	}
	h.took(took)
	if r == Failed {
		least := b.PerHost
		if h.failed++; h.failed >= several && a.Lane.PerHost == 0 {
			least = 1
		}
		h.window = max(h.window/2, min(h.window, least))
		if !old {
			h.distrust()
		}
		return
	}
	h.accepted, h.failed = now, 0
	h.window = min(h.window+1, h.mostWindow)
	if !old {
		h.trust = min(h.trust+1, mostTrust)
	}
}
