package admission

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"fedpost/internal/testkit/long"
)

// The promise: whatever servers do, a due delivery to a host that has accepted lately begins
// within a second at the median and three at worst, and one to a host never met before within
// five and twenty. Here a process of a small scale plays it in virtual time: a queue, pollers
// that take messages up one after another, circuits, processors, and populations of servers
// that each seed draws.

// population is a kind of bad servers: so many owners, hosts of each and inboxes of each host.
type population struct {
	kind                   string
	owners, hosts, inboxes int
	each                   int           // recipients in a message
	every                  time.Duration // between activities to all of them
	before                 int           // deliveries that each host accepts at once
}

func (q population) String() string {
	return fmt.Sprintf("%d owners × %d hosts × %d inboxes that are %s (after %d), %d a message, every %s", q.owners, q.hosts, q.inboxes, q.kind, q.before, q.each, q.every)
}

// kinds are what bad servers do.
var kinds = map[string]func(p *process, s *server){
	"hanging":    func(_ *process, s *server) { s.answer = steady(timeout, Failed) },
	"slow":       func(_ *process, s *server) { s.answer = steady(13*time.Second, Accepted) },
	"sluggish":   func(_ *process, s *server) { s.answer = steady(900*time.Millisecond, Accepted) },
	"throttling": func(_ *process, s *server) { s.answer = steady(50*time.Millisecond, Failed) },
	"calm":       func(_ *process, s *server) { s.answer = steady(50*time.Millisecond, Accepted) },
	"moody": func(p *process, s *server) {
		s.answer = func(int) (time.Duration, Result) {
			if p.rand.IntN(4) == 0 {
				return timeout, Failed
			}
			return 50 * time.Millisecond, Accepted
		}
	},
}

// story is what a seed draws.
type story struct {
	seed        uint64
	bounds      Bounds
	populations []population
}

func (s story) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d places, %d waiting, %d to %d a host", s.seed, s.bounds.Places, s.bounds.Waiting,
		s.bounds.PerHost, s.bounds.PerHostMost)
	for _, p := range s.populations {
		fmt.Fprintf(&b, "\n  %s", p)
	}
	return b.String()
}

// draw draws a story.
func draw(seed uint64) story {
	r := rand.New(rand.NewPCG(seed, 1))
	pick := func(ns ...int) int { return ns[r.IntN(len(ns))] }
	places := pick(16, 24, 64, 200)
	b := Bounds{
		Places: places, Spare: places, Computing: pick(4, 8), PerHost: pick(2, 4, 8), PerHostMost: pick(8, 20, 80),
	}
	b.Waiting = max(50, part(b.Places)/pick(1, 2)) // a message has up to 50 recipients
	s := story{seed: seed, bounds: b}
	names := slices.Sorted(maps.Keys(kinds))
	for range pick(1, 1, 2, 3) {
		q := population{
			kind: names[r.IntN(len(names))], owners: pick(1, 3, 10, places/8, places/4, places/2, places), hosts: pick(1, 1, 5, 30), inboxes: pick(1, 1, 8, 50),
			each: pick(1, 1, 10, 50), every: time.Duration(pick(1, 5, 20, 60)) * time.Second, before: pick(0, 0, 1, 20),
		}
		// No population is larger than a process takes up, so that a story is played in seconds.
		for q.owners*q.hosts*q.inboxes > min(4000, 40*b.Waiting*int(q.every.Seconds())) {
			q.hosts, q.inboxes = max(1, q.hosts/2), max(1, q.inboxes/2)
		}
		s.populations = append(s.populations, q)
	}
	return s
}

// quickly is how long an activity takes places for attempts that end within a second.
func (q population) quickly() time.Duration {
	at := time.Duration(q.owners * q.hosts * q.inboxes)
	switch {
	case q.kind == "sluggish":
		return at * 900 * time.Millisecond
	case q.kind == "throttling" || q.kind == "moody" || q.kind == "calm" || q.before > 0:
		return at * 50 * time.Millisecond
	}
	return 0
}

// beside says which load of servers that answer within a second, for ever, does not fit beside
// those that never do, or "".
func (s story) beside() string {
	b, held := s.bounds, time.Duration(0) // in a second
	for _, q := range s.populations {
		at := time.Duration(q.owners*q.hosts*q.inboxes) * time.Second / q.every
		switch q.kind {
		case "slow":
			held += at * 13 * time.Second
		case "moody":
			held += at * timeout / 4
		}
	}
	left := b.Places - min(int(held/time.Second), part(part(b.Places)))
	for _, q := range s.populations {
		share := max(1, (left-b.Places/8+q.owners)/(q.owners+1)) // of an owner, see plan.shared
		most := min(left, q.owners*share, q.owners*q.hosts*b.PerHostMost)
		if quick := q.kind == "calm" || q.kind == "sluggish"; quick && q.quickly() > q.every*time.Duration(most) {
			return fmt.Sprintf("%s of attempts every %s, in %d of the %d places that slow servers leave", q.quickly(), q.every, most, left)
		}
	}
	return ""
}

// limits says which promises no process of these bounds can keep, and why.
func (s story) limits() (known, fresh, often string) {
	var quickly time.Duration
	slow, once, moody, unknown, load, recipients, second := 0, 0, 0, 0, 0, 0, 0
	for _, q := range s.populations {
		bad := q.kind == "hanging" || q.kind == "slow" || q.kind == "moody"
		if bad {
			slow += q.owners * q.hosts * q.inboxes * int(2*time.Minute/q.every)
		}
		switch {
		case q.kind == "moody":
			moody += q.owners
		case bad && q.before > 0:
			once += q.owners
		case bad:
			unknown += q.owners
		case q.kind == "sluggish":
			load += q.owners * q.hosts * q.inboxes / int(q.every.Seconds())
		case q.kind == "throttling" || q.kind == "calm":
			load += q.owners * q.hosts * q.inboxes / int(q.every.Seconds()) / 20 // as each takes 50 ms
		}
		at, rest := q.owners*q.hosts*q.inboxes, int(q.every.Seconds())
		recipients, second = recipients+at, second+at/rest
		quickly += q.quickly()
	}
	b := s.bounds
	// Each owner of slow hosts has a place, but who turned once a spare one. Hosts that are not known
	// have no reserved places.
	turned := moody + max(0, once-b.Spare)
	places := max(1, min(part(b.Places), b.Places-min(unknown, part(b.Places))-turned))
	for _, q := range s.populations {
		at, most := q.owners*q.hosts*q.inboxes, b.Places-b.Places/8
		one := most / 2
		if most = min(places, most*q.owners/(q.owners+1), q.owners*q.hosts*b.PerHostMost); q.quickly() > q.every*time.Duration(most) {
			known = fmt.Sprintf("%s of attempts every %s, in %d places that %d owners get", q.quickly(), q.every, most, q.owners)
		}
		if takes := q.quickly() / time.Duration(most); q.kind != "slow" && q.kind != "hanging" && at > b.Waiting && takes > 3*time.Second {
			known = fmt.Sprintf("%d recipients, for %d that can wait, take %s in the %d places that their hosts get", at, b.Waiting, takes, most)
		}
		if takes := time.Duration(q.owners*q.hosts*q.before) * 50 * time.Millisecond / time.Duration(one); takes > time.Minute {
			known = fmt.Sprintf("what the hosts accept at once takes %s in the %d places that one owner gets", takes, one)
		}
	}
	if kept := b.Places - part(b.Places); turned > kept*3/4 {
		known = fmt.Sprintf("%d owners that have accepted at once take a place each for %s before anybody can tell, of %d kept", turned, timeout, kept)
	}
	// What is sent back is a message of its own.
	if most := int(time.Second / takingUp); recipients > most || second > most/3 {
		known = fmt.Sprintf("of %d recipients at once, %d a second, %d a second can be taken up", recipients, second, most)
	}
	if load > b.Places/2 {
		known = fmt.Sprintf("%d deliveries a second take a second each, of %d at once", load, b.Places)
	}
	// Hosts that answer within a second are a load, too: others wait for them on the queue.
	if quickly /= time.Duration(places); quickly > 2*time.Second {
		known = fmt.Sprintf("an activity takes %s of the %d places that nobody slow has, for attempts that have just begun", quickly, places)
	}
	known = cmp.Or(known, s.beside())
	if unknown > part(b.Places) {
		fresh = fmt.Sprintf("%d owners whom nobody has met take a place each for %s, of %d", unknown, timeout, part(b.Places))
		often = fresh
	}
	if last := time.Duration(slow) * timeout / time.Duration(part(b.Places)); last > longestWait {
		often = fmt.Sprintf("%d deliveries that take %s each would begin within %s", slow, timeout, last)
	}
	return known, cmp.Or(fresh, known), often
}

// verdict is how long the deliveries of bystanders waited until they began.
type verdict struct {
	known, fresh []time.Duration
	receives     int // the most that a delivery had
	all, often   int // deliveries, and those that were received more often than is promised
	memory       int
	slowest      *delivery // of those watched
}

// play plays a story.
func play(s story) verdict {
	p := newProcess(s.seed, s.bounds)
	well := func(name, site string) *server {
		took := time.Duration(20+p.rand.IntN(380)) * time.Millisecond
		return &server{name: name, site: site, answer: steady(took, Accepted), handshake: hello}
	}
	// Everybody who is known has accepted a delivery before.
	var known []*server
	for i := range 20 {
		known = append(known, well(fmt.Sprintf("known%d", i), fmt.Sprintf("known%d", i)))
	}
	p.deliver(1, "", known...)
	for n, q := range s.populations {
		var to, met []*server
		for o := range q.owners {
			for h := range q.hosts {
				s := &server{name: fmt.Sprintf("%s%d.%d.%d", q.kind, n, o, h), site: fmt.Sprintf("%s%d.%d", q.kind, n, o), handshake: hello}
				kinds[q.kind](p, s)
				if bad := s.answer; q.before > 0 {
					s.answer = func(n int) (time.Duration, Result) {
						if n <= q.before {
							return 50 * time.Millisecond, Accepted
						}
						return bad(n)
					}
					for range q.before {
						met = append(met, s)
					}
				}
				for range q.inboxes {
					to = append(to, s)
				}
			}
		}
		p.deliver(50, "", met...)
		p.rand.Shuffle(len(to), func(i, j int) { to[i], to[j] = to[j], to[i] })
		var post func()
		post = func() {
			p.deliver(q.each, "", to...)
			p.after(q.every, post)
		}
		p.at(time.Minute, post)
	}
	for i := range 240 {
		p.at(time.Minute+time.Duration(p.rand.Int64N(int64(time.Minute))), func() { p.deliver(1, "known", known[p.rand.IntN(len(known))]) })
		if i%4 == 0 {
			site := fmt.Sprintf("new%d", i)
			p.at(time.Minute+time.Duration(p.rand.Int64N(int64(time.Minute))), func() { p.deliver(1, "new", well(site, site)) })
		}
	}
	p.run(3 * time.Minute)
	var v verdict
	v.memory = p.memory
	for _, d := range p.all {
		waited := d.began - d.due
		if !d.begun {
			waited = p.now - d.due
		}
		if d.watched == "known" && (v.slowest == nil || waited > v.slowest.began-v.slowest.due) {
			v.slowest = d
		}
		switch d.watched {
		case "known":
			v.known = append(v.known, waited)
		case "new":
			v.fresh = append(v.fresh, waited)
		}
		if v.all++; d.receives > receives {
			v.often++
		}
		v.receives = max(v.receives, d.receives)
	}
	slices.Sort(v.known)
	slices.Sort(v.fresh)
	return v
}

// broken says which promise does not hold, or "".
func (v verdict) broken(s story) string {
	median := func(ds []time.Duration) time.Duration { return ds[len(ds)/2] }
	last := func(ds []time.Duration) time.Duration { return ds[len(ds)-1] }
	var faults []string
	check := func(name string, got, most time.Duration) {
		if got > most {
			faults = append(faults, fmt.Sprintf("%s: %s, want %s", name, got, most))
		}
	}
	known, fresh, often := s.limits()
	if known == "" {
		check("known hosts, median", median(v.known), time.Second)
		check("known hosts, worst", last(v.known), 3*time.Second)
	}
	if fresh == "" {
		check("new hosts, median", median(v.fresh), 5*time.Second)
		check("new hosts, worst", last(v.fresh), 20*time.Second)
	}
	// A process with memory for a handful has to send back what has come three times already
	// when everything in it has.
	if often == "" && (v.often > v.all/50 || v.receives > receives+3) {
		faults = append(faults, fmt.Sprintf("%d of %d deliveries were received more than %d times, the last %d times", v.often, v.all, receives, v.receives))
	}
	if most := s.bounds.Waiting*5/4 + 50; v.memory > most {
		faults = append(faults, fmt.Sprintf("%d recipients waited in memory, want %d", v.memory, most))
	}
	if d := v.slowest; len(faults) > 0 && d != nil {
		faults = append(faults, fmt.Sprintf("the slowest was due at %s, taken up after %s (%d receives), got a place after %s and began after %s", d.due, d.taken-d.due, d.receives, d.placed-d.due, d.began-d.due))
	}
	return strings.Join(faults, "\n  ")
}

var (
	firstSeed = flag.Uint64("first", 0, "the first seed of populations")
	seeds     = flag.Uint64("seeds", 0, "how many seeds of populations; 0: as many as is usual")
)

// TestNoPopulationOfBadHostsDelaysOthers plays what each seed draws, and judges what a process of
// these bounds can keep.
func TestNoPopulationOfBadHostsDelaysOthers(t *testing.T) {
	long.NotUnderRace(t)
	failed, beyond := 0, map[string]int{}
	for n := range cmp.Or(*seeds, uint64(long.Pick(30, 1000))) {
		s := draw(*firstSeed + n)
		known, fresh, often := s.limits()
		for name, why := range map[string]string{"known hosts": known, "new hosts": fresh, "receives": often} {
			if why != "" {
				beyond[name]++
			}
		}
		if broken := play(s).broken(s); broken != "" {
			t.Errorf("%s\n  %s", s, broken)
			if failed++; failed == 5 {
				t.Fatal("five are enough")
			}
		}
	}
	t.Logf("stories in which no process of these bounds can keep its promise to: %v", beyond)
}

// TestWhatComesBackIsReceivedThreeTimes: populations whose deliveries have come back too early.
func TestWhatComesBackIsReceivedThreeTimes(t *testing.T) {
	long.NotUnderRace(t)
	for _, seed := range []uint64{303, 600, 716, 802, 852, 2540} {
		s := draw(seed)
		if _, _, often := s.limits(); often != "" {
			t.Errorf("%s\n  this is beyond a process: %s", s, often)
		}
		if broken := play(s).broken(s); broken != "" {
			t.Errorf("%s\n  %s", s, broken)
		}
	}
}

// TestWhatStrangersHaveDoneDelaysNobody: populations that have kept others waiting before.
func TestWhatStrangersHaveDoneDelaysNobody(t *testing.T) {
	long.NotUnderRace(t)
	for name, s := range map[string]story{
		"one domain that turns slow":                   {bounds: ordinary, populations: []population{{kind: "slow", owners: 1, hosts: 3, inboxes: 400, each: 50, every: 20 * time.Second, before: 1}}},
		"a domain that turns slow where files are few": {bounds: few, populations: []population{{kind: "slow", owners: 1, hosts: 8, inboxes: 24, each: 50, every: 10 * time.Second, before: 20}}},
		"40 domains that turn slow":                    {bounds: ordinary, populations: []population{{kind: "slow", owners: 40, hosts: 1, inboxes: 50, each: 50, every: 20 * time.Second, before: 1}}},
		"eight domains of 30 hosts that turn slow":     {bounds: ForHundreds(64, 8).Shared(2, 50), populations: []population{{kind: "slow", owners: 8, hosts: 30, inboxes: 1, each: 1, every: 20 * time.Second, before: 20}}},
		"domains whose hosts turn slow one by one":     {seed: 2624, bounds: Bounds{Places: 16, Computing: 8, PerHost: 8, PerHostMost: 20, Waiting: 50}, populations: []population{{kind: "slow", owners: 2, hosts: 30, inboxes: 1, each: 1, every: time.Second, before: 20}}},
		"domains that turn slow at every second":       {bounds: ForHundreds(64, 8).Shared(2, 50), populations: []population{{kind: "slow", owners: 10, hosts: 30, inboxes: 1, each: 50, every: time.Second, before: 1}}},
		"800 owners of hosts that hang":                {bounds: ordinary, populations: []population{{kind: "hanging", owners: 800, hosts: 1, inboxes: 1, each: 50, every: time.Minute}}},
		"activity upon activity to hosts that hang":    {bounds: ordinary, populations: []population{{kind: "hanging", owners: 30, hosts: 1, inboxes: 6, each: 6, every: time.Second}}},
		"hosts that hang where files are few":          {bounds: few, populations: []population{{kind: "hanging", owners: 30, hosts: 1, inboxes: 8, each: 50, every: 5 * time.Second}}},
		"more owners of hosts that hang than files":    {bounds: few, populations: []population{{kind: "hanging", owners: 150, hosts: 1, inboxes: 2, each: 50, every: 10 * time.Second}}},
		"as many owners of hosts that hang as places":  {bounds: ForHundreds(32, 8).Shared(2, 50), populations: []population{{kind: "hanging", owners: 24, hosts: 1, inboxes: 1, each: 24, every: time.Second}}},
		"a thousand hosts of one domain that hang":     {bounds: ordinary, populations: []population{{kind: "hanging", owners: 1, hosts: 1000, inboxes: 1, each: 50, every: 20 * time.Second}}},
		"a server that answers 401 to all":             {bounds: ordinary, populations: []population{{kind: "throttling", owners: 1, hosts: 1, inboxes: 100, each: 50, every: 5 * time.Second}}},
		"880 inboxes of one activity on eight hosts":   {bounds: ordinary, populations: []population{{kind: "hanging", owners: 8, hosts: 1, inboxes: 110, each: 50, every: time.Minute}}},
	} {
		t.Run(name, func(t *testing.T) {
			s.seed = cmp.Or(s.seed, 1)
			if known, _, _ := s.limits(); known != "" {
				t.Fatalf("this is beyond a process: %s", known)
			}
			if broken := play(s).broken(s); broken != "" {
				t.Errorf("%s\n  %s", s, broken)
			}
		})
	}
}

// TestANewHostWaitsForNoHostOfItsDomain for longer than others of the domain hold the share: it
// has held nothing, so it is next of its domain.
func TestANewHostWaitsForNoHostOfItsDomain(t *testing.T) {
	p := newProcess(1, ordinary)
	var to []*server
	for i := range 1000 {
		s := &server{name: fmt.Sprint("hangs", i), site: "one", handshake: hello}
		kinds["hanging"](p, s)
		to = append(to, s, s, s, s)
	}
	p.deliver(50, "", to...)
	p.at(time.Minute, func() {
		p.deliver(1, "new", &server{name: "well", site: "one", handshake: hello, answer: steady(50*time.Millisecond, Accepted)})
	})
	p.run(3 * time.Minute)
	d := p.all[len(p.all)-1]
	if waited := d.began - d.due; !d.begun || waited > 20*time.Second {
		t.Errorf("a new host began (%v) after %s and %d receives, want 20s", d.begun, waited, d.receives)
	}
}
