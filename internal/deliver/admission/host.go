package admission

import (
	"cmp"
	"container/list"
	"iter"
	"math"
	"slices"
	"time"
)

// The bounds of what is remembered of hosts, whose names strangers choose.
const (
	mostHosts = 20_000
	// proof is how long a host counts as accepting after a delivery that it accepted.
	proof = time.Hour
	// A prompt acceptance adds 1 to a host's trust, an attempt that becomes old subtracts hanging.
	// So a host loses its reserved places with its first attempt that becomes old; the more prompt
	// acceptances it had, the fewer it needs to get the places back.
	mostTrust, hanging = 8, 8
	// several failures in a row halve a host's window down to one: what is under way when its
	// circuit opens must not cost more than the circuit allows. Protocols with a Lane have no
	// circuits.
	several = 3
)

type site struct {
	name   string
	hosts  int // that are known
	held   held
	mean   mean
	bounds [2]bound // by class
}

func (s *site) old() int { return s.bounds[prompt].old + s.bounds[others].old }

// host is what a process knows of one host, and its attempts.
type host struct {
	bound
	name       string
	site       *site
	class      class
	trust      int
	accepted   time.Duration // when it last accepted
	seen       time.Duration
	mean       mean
	failed     int // attempts in a row
	window     int // places that it may hold
	mostWindow int // the most that window grows to
	held       held

	inboxes map[string]*inbox
	ring    list.List // of *inbox with attempts that wait, least recently served first
	at      int       // index in plan.waiting; -1: nothing waits
}

type inbox struct {
	key     string
	under   int
	old     int
	alone   bool      // the attempt under way is Attempt.Alone
	waiting list.List // of *Attempt
	ring    *list.Element
}

// most bounds the attempts under way at an inbox, including a.
func (h *host) most(i *inbox, a *Attempt) int {
	if a.Alone || i.alone {
		return 1
	}
	return part(h.places(a))
}

// places bounds the attempts under way at a host, including a.
func (h *host) places(a *Attempt) int {
	if most := a.Lane.PerHost; most > 0 {
		return min(h.window, most)
	}
	return h.window
}

// before reports whether h is served before o: the one that has held least, counted by site
// unless the host itself is prompt. Within a site, hosts that have held nothing come first, then
// attempts that came back.
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
		cmp.Compare(a, b), cmp.Compare(h.known(), o.known()), cmp.Compare(min(k.Receives, receives), min(g.Receives, receives)), cmp.Compare(h.held, o.held),
		cmp.Compare(g.arrived, k.arrived),
	) < 0
}

// known is 0 of a host that has held nothing yet, else 1.
func (h *host) known() int {
	if h.held == nothing {
		return 0
	}
	return 1
}

func (h *host) first() *Attempt {
	return h.ring.Front().Value.(*inbox).waiting.Front().Value.(*Attempt)
}

// attempts yields the attempts that wait for a host. The caller may remove the yielded one.
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
		bound: newBound(), name: a.Host, site: s, class: others, seen: now, held: nothing, at: -1,
		window: p.b.PerHost, mostWindow: p.b.PerHostMost,
	}
	p.hosts[a.Host] = h
	return h
}

// tidy forgets a quarter of the hosts when there are too many: those that are not prompt first,
// then the least recently seen.
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

func (h *host) push(a *Attempt) {
	i, ok := h.inboxes[a.Inbox]
	if !ok {
		i = &inbox{key: a.Inbox}
		if h.inboxes == nil {
			h.inboxes = map[string]*inbox{}
		}
		h.inboxes[a.Inbox] = i
	}
	// An attempt that came back has waited before.
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

// together ends Attempt.Alone of those that wait, as an inbox that accepts again is not spared.
func (i *inbox) together() {
	for w := i.waiting.Front(); w != nil; w = w.Next() {
		w.Value.(*Attempt).Alone = false
	}
}

func (h *host) drop(i *inbox) {
	if i.under == 0 && i.waiting.Len() == 0 {
		delete(h.inboxes, i.key)
	}
	if len(h.inboxes) == 0 {
		h.inboxes = nil // an empty map keeps its memory
	}
}

// mean is the moving average of how long an attempt takes.
type mean time.Duration

// usual is the mean, or half a second if nothing is known.
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

// soon is how long attempts at a host may wait while others wait for memory. Prompt hosts free
// memory steadily.
func (h *host) soon() time.Duration {
	if h.class == prompt {
		return 2 * quick
	}
	return quick
}

// tookLess corrects the mean: an attempt that became old was counted with timeout.
func (h *host) tookLess(d time.Duration) {
	for _, m := range []*mean{&h.mean, &h.site.mean} {
		*m = max(*m-mean(max(d, 0))/8, mean(quick))
	}
}

// takes estimates how many more attempts a host takes soon, as its window may grow. An unknown
// host may take any number.
func (h *host) takes() int {
	if h.mean == 0 {
		return math.MaxInt
	}
	rounds := h.soon().Seconds() / time.Duration(h.mean).Seconds()
	return int(min(float64(h.window)*(math.Exp2(rounds)-1), float64(h.mostWindow)*rounds))
}

func (h *host) distrust() { h.trust = max(h.trust-hanging, -hanging) }

func (h *host) learn(a *Attempt, r Result, took time.Duration, old bool, b Bounds, now time.Duration) {
	if r != Unsent || !a.computes { // a refusal needs time, too
		h.took(took)
	}
	if r == Unsent {
		return
	}
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

// held is how long something has held places lately; the half-life is halfLife. It is stored as
// the logarithm of the weighted sum, so that two values compare without knowing the time, and
// none overflows.
type held float64

const halfLife = time.Minute

// nothing is held of what has held no place.
var nothing = held(math.Inf(-1))

// plus adds d, which ended at the time at since an epoch.
func (h held) plus(d, at time.Duration) held {
	if d <= 0 {
		return h
	}
	x := math.Log2(d.Seconds()) + at.Seconds()/halfLife.Seconds()
	a, b := max(float64(h), x), min(float64(h), x)
	return held(a + math.Log2(1+math.Exp2(b-a)))
}
