package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"fedpost/internal/testkit/faults"
)

// A bystander is a host, or an inbox of one, that works. Whatever others do, its deliveries begin
// in time: each within Post.Within, and those of a host within a quarter or a third of that at the
// median.

// What a process promises to hosts that work.
const (
	knownWithin, knownMedian = 3 * time.Second, time.Second
	newWithin, newMedian     = 20 * time.Second, 5 * time.Second
	// backAfter is how soon a host that accepts again gets what waits for it.
	backAfter = 4 * time.Minute
)

// promise has a post checked when all of its deliveries should have begun.
func (b *book) promise(p *posted) {
	if p.Within == 0 || !b.calm() {
		return
	}
	b.goes(func() {
		b.wait(fmt.Sprintf("bystander %d", p.N), p.Delay+p.Within+time.Millisecond)
		if b.over.Load() {
			return
		}
		for _, r := range p.Recipients {
			if d := p.inboxes[r.url()]; d.began.IsZero() {
				b.fail("waits", "the delivery of post %d to %s, which is well, has not begun %s after it was due", p.N, r.url(), p.Within)
			}
		}
	})
}

// begins records that an attempt at a delivery has begun.
func (b *book) begins(r request) {
	of := b.posts[r.n]
	if of == nil || of.Within == 0 {
		return
	}
	if d := of.inboxes["https://"+r.host+r.path]; d != nil && d.began.IsZero() {
		d.began = time.Now()
	}
}

// checkMedians checks the median wait of deliveries to hosts that work.
func (s *sim) checkMedians() {
	for _, class := range []struct{ within, median time.Duration }{{knownWithin, knownMedian}, {newWithin, newMedian}} {
		var waited []time.Duration
		for _, p := range s.book.posts {
			for _, d := range p.inboxes {
				if p.Within == class.within && !d.began.IsZero() {
					waited = append(waited, d.began.Sub(p.answeredAt.Add(p.Delay)))
				}
			}
		}
		slices.Sort(waited)
		if n := len(waited); n >= 10 && waited[n/2] > class.median {
			s.fail("waits", "half of %d deliveries to hosts that are well begin %s after they are due (at most %s)", n, waited[n/2], class.median)
		}
	}
}

// takes waits for as long as a server takes for its answer.
func (p *process) takes(ctx context.Context, to *server, r request) error {
	d := to.at(time.Since(p.began), r.path).Takes
	if d == 0 || !r.post {
		return nil
	}
	p.book.begins(r)
	p.again(&held{Call: faults.Call{Target: "http", Op: "takes", About: r.host + r.path}, ctx: ctx, actor: actorOf(ctx)}, d)
	if p.dead.Load() || p.over.Load() {
		return net.ErrClosed
	}
	return ctx.Err()
}

// crowded reports whether attempts wait for places in this story.
func (sc Scenario) crowded() bool {
	return slices.ContainsFunc(sc.Processes, func(p Process) bool { return p.Places > 0 })
}

// bystanders draws one story in twelve, which has nothing else. Such stories have random numbers of
// their own.
func (d *drawing) bystanders() {
	if (chances{rand.New(rand.NewPCG(d.Seed, 31))}).is(1.0 / 12) {
		d.Scenario = bystandersOf(d.Seed)
	}
}

// bystandersOf draws a story of servers that work beside others that do not.
func bystandersOf(seed uint64) Scenario {
	c := chances{rand.New(rand.NewPCG(seed, 31))}
	c.Float64() // as it was for whether to draw one
	d := &drawing{chances: c, has: map[string]bool{"lambda": c.is(0.3)}}
	d.Seed, d.Settings = seed, map[string]string{}
	d.processes()
	story := pick(c, d.populations, d.populations, d.populations, d.throttledInbox, d.throttledOnce, d.refusedKey, d.inboxDown, d.paced)
	if (chances{rand.New(rand.NewPCG(seed, 32))}).is(0.2) {
		story = pick(c, d.turning, d.fewPlaces)
	}
	story()
	d.lines()
	return d.Scenario
}

// throttledInbox is a host with a few inboxes that answer 429 for a second all the time.
func (d *drawing) throttledInbox() {
	at, long := minute, d.between(10*minute, 2*day)
	s := Server{Host: "throttled.example", Inboxes: map[string][]Phase{}}
	var throttled []Inbox
	for i := range pick(d.chances, 1, 1, 2, 20) {
		path := fmt.Sprintf("/t%d/inbox", i)
		s.Inboxes[path] = []Phase{{at, Answer{Kind: Says, Status: pick(d.chances, 429, 503), RetryAfter: "1"}}, {at + long, Answer{Kind: Accepts}}}
		throttled = append(throttled, Inbox{s.Host, path})
	}
	d.Servers = append(d.Servers, s)
	d.add(0, Post{Recipients: []Inbox{{s.Host, "/u0/inbox"}}})
	for i := range 60 {
		when := at + time.Duration(i)*long/60
		d.add(when, Post{Recipients: []Inbox{pick(d.chances, throttled...)}})
		var others []Inbox
		for n := range 1 + d.IntN(4) {
			others = append(others, Inbox{s.Host, fmt.Sprintf("/u%d/inbox", n)})
		}
		d.add(when+d.within(minute), Post{Recipients: others, Within: backAfter})
	}
}

// throttledOnce is a host that throttles one request of many.
func (d *drawing) throttledOnce() {
	s := Server{Host: "once.example", Phases: []Phase{{minute, Answer{Kind: Says, Status: 429, RetryAfter: pick(d.chances, "", "1", "30"), Once: true}}}}
	d.Servers = append(d.Servers, s)
	d.add(0, Post{Recipients: []Inbox{{s.Host, "/u0/inbox"}}})
	d.add(minute, Post{Recipients: inboxesOf(s.Host, 50+d.IntN(150)), Within: backAfter})
}

// refusedKey is a host that answers 401 to one or more actors.
func (d *drawing) refusedKey() {
	long := d.between(hour, 3*day)
	s := Server{Host: "unauthorized.example", Phases: []Phase{{minute, Answer{Kind: Says, Status: 401}}, {minute + long, Answer{Kind: Accepts}}}}
	d.Servers = append(d.Servers, s)
	who := pick(d.chances, 1, 5)
	for range 5 {
		d.add(minute+d.within(long), Post{Recipients: inboxesOf(s.Host, 20+d.IntN(80)), Actor: d.IntN(who)})
	}
}

// inboxDown is a host with an inbox that is down and also gets posts with an ordering key.
func (d *drawing) inboxDown() {
	at, long := minute, 2*hour+d.within(day)
	s := Server{Host: "ordered.example", Inboxes: map[string][]Phase{
		"/down/inbox": {{at, pick(d.chances, Answer{Kind: Says, Status: 500}, Answer{Kind: Resets})}, {at + long, Answer{Kind: Accepts}}},
	}}
	d.Servers = append(d.Servers, s)
	for i := range 60 {
		when := at + time.Duration(i)*long/60
		p := Post{Ordering: "line", Recipients: []Inbox{{s.Host, "/u0/inbox"}}}
		if i%3 == 0 {
			p.Recipients[0].Path = "/down/inbox"
		} else if when > at+hour {
			p.Within = backAfter
		}
		d.add(when, p)
		d.add(when+d.within(minute), Post{Recipients: []Inbox{{s.Host, "/u1/inbox"}}})
	}
}

// paced is a host that works, for which an operator has set a limit.
func (d *drawing) paced() {
	s := Server{Host: "paced.example"}
	d.Servers = append(d.Servers, s)
	d.Latency.Typical = 5 * time.Millisecond // else what is due now was due before, too (schedule)
	d.Acts = append(d.Acts, Act{At: minute, Do: Limit, Host: s.Host, Rate: 60})
	n := pick(d.chances, 54, 108, 162)
	d.add(2*minute, Post{Recipients: inboxesOf(s.Host, n), Within: time.Duration(n) * minute / 54})
}

func inboxesOf(host string, n int) (all []Inbox) {
	for i := range n {
		all = append(all, Inbox{host, fmt.Sprintf("/u%d/inbox", i)})
	}
	return all
}

// mostRecipients of all activities to a population.
const mostRecipients = 300

// population is a kind of bad servers: the number of owners, hosts of each and inboxes of each
// host.
type population struct {
	name                   string
	answer                 Answer
	owners, hosts, inboxes int
}

// When populations are bad.
const badFrom, badUntil = minute, 3 * minute

// populations of bad servers take the places of a process that has few, while servers that work get
// deliveries.
func (d *drawing) populations() {
	places := pick(d.chances, 8, 16, 24, 48)
	d.Processes = []Process{{Name: "up", Whole: true, Schedule: true, Places: places}}
	known := d.known(6, 0)
	// If there are more owners of new hosts than places for them, these hosts take all of these
	// places. Hosts that turn bad take the spare ones, and those kept for prompt hosts until that is
	// noticed, so no others take the rest meanwhile.
	kept := max(1, places/4)
	left := places - kept
	for n := range 1 + d.IntN(3) {
		q := population{
			name: fmt.Sprintf("owner%d", n), hosts: pick(d.chances, 1, 1, 4), inboxes: pick(d.chances, 1, 1, 8),
			answer: pick(d.chances, Answer{Kind: Hangs}, Answer{Kind: Hangs}, Answer{Kind: Accepts, Takes: 13 * time.Second},
				Answer{Kind: Says, Status: 429, RetryAfter: "1"}, Answer{Kind: Says, Status: 401}, Answer{Kind: Says, Status: 500, Takes: 900 * time.Millisecond}),
		}
		turns, most := n == 0 && d.is(0.3), left
		if turns {
			most = 2 * (places + places/8 - 1)
		}
		if q.owners = min(most, pick(d.chances, 1+d.IntN(3), most/4, most/2)); q.owners == 0 {
			continue
		}
		left -= q.owners
		if d.populate(q, turns); turns {
			break
		}
	}
	d.singles(known)
	for i := range 20 {
		s := Server{Host: fmt.Sprintf("new%d.example", i)}
		d.Servers = append(d.Servers, s)
		d.add(badFrom+d.within(badUntil-badFrom), Post{Recipients: []Inbox{{s.Host, "/inbox"}}, Within: newWithin})
	}
}

// turning is an owner of a few hosts that accept a delivery each, and then hang for more deliveries
// than there are places.
func (d *drawing) turning() {
	places := pick(d.chances, 8, 16, 24)
	d.Processes = []Process{{Name: "up", Whole: true, Schedule: true, Places: places}}
	known := d.known(6, 0)
	var first, all []Inbox
	for h := range 4 {
		s := Server{
			Host:   fmt.Sprintf("bad%d.owner.example", h),
			Phases: []Phase{{badFrom, Answer{Kind: Hangs}}, {badUntil + 5*minute, Answer{Kind: Accepts}}},
		}
		inboxes := inboxesOf(s.Host, places/2)
		d.Servers, first, all = append(d.Servers, s), append(first, inboxes[0]), append(all, inboxes...)
	}
	d.add(badFrom/2, Post{Recipients: first})
	for at := badFrom; at < badUntil; at += minute {
		d.add(at, Post{Recipients: all})
	}
	d.singles(known)
}

// fewPlaces is as many owners of new hosts that hang as there are places, while as many known hosts
// get an activity at once and take a while for it.
func (d *drawing) fewPlaces() {
	places := pick(d.chances, 8, 16, 24)
	d.Processes = []Process{{Name: "up", Whole: true, Schedule: true, Places: places}}
	known := d.known(places, 450*time.Millisecond)
	d.populate(population{name: "owner", owners: places, hosts: 1, inboxes: 1, answer: Answer{Kind: Hangs}}, false)
	for range 2 {
		d.add(badFrom+10*time.Second+d.within(badUntil-badFrom-minute), Post{Recipients: known, Within: knownWithin})
	}
	d.singles(known)
}

// known adds hosts that have accepted a delivery before, and take some time for each.
func (d *drawing) known(n int, takes time.Duration) (all []Inbox) {
	for i := range n {
		s := Server{Host: fmt.Sprintf("known%d.example", i)}
		if takes > 0 {
			s.Phases = []Phase{{0, Answer{Kind: Accepts, Takes: takes}}}
		}
		d.Servers, all = append(d.Servers, s), append(all, Inbox{s.Host, "/inbox"})
	}
	d.add(0, Post{Recipients: all})
	return all
}

// singles are deliveries to known hosts, one by one, while others are bad.
func (d *drawing) singles(known []Inbox) {
	for range 40 {
		d.add(badFrom+d.within(badUntil-badFrom), Post{Recipients: []Inbox{pick(d.chances, known...)}, Within: knownWithin})
	}
}

// populate adds a population, and activities to all of it. If it turns bad, it accepts one first.
func (d *drawing) populate(q population, turns bool) {
	every := time.Duration(pick(d.chances, 5, 20, 60)) * time.Second
	for q.owners*q.hosts*q.inboxes*int((badUntil-badFrom)/every) > mostRecipients {
		q.hosts, q.inboxes, every = max(1, q.hosts/2), max(1, q.inboxes/2), min(2*every, minute)
	}
	var all []Inbox
	for o := range q.owners {
		for h := range q.hosts {
			s := Server{
				Host:   fmt.Sprintf("bad%d.%s-%d.example", h, q.name, o),
				Phases: []Phase{{badFrom, q.answer}, {badUntil + 5*minute, Answer{Kind: Accepts}}},
			}
			d.Servers, all = append(d.Servers, s), append(all, inboxesOf(s.Host, q.inboxes)...)
		}
	}
	if turns {
		d.add(badFrom/2, Post{Recipients: all})
	}
	for at := badFrom; at < badUntil; at += every {
		d.add(at, Post{Recipients: all})
	}
}
