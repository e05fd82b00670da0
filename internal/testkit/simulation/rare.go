package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
)

// rare adds situations that chance alone seldom makes: each was needed to find one of the defects
// by which the simulation is measured. They have random numbers of their own, so seeds without them
// remain the same stories.
func (d *drawing) rare() {
	rest := d.chances
	defer func() { d.chances = rest }()
	d.chances = chances{rand.New(rand.NewPCG(d.Seed, 11))}
	switch n := d.IntN(30); n {
	case 0, 1:
		d.crowd()
	case 2, 3:
		d.flapping()
	case 4, 5:
		d.duels()
	case 6, 7:
		d.closing()
	case 8:
		d.rabble()
	case 9, 10:
		d.held()
	case 11:
		d.backlog()
	case 12:
		d.rabble()
	case 13, 14:
		d.closing()
	case 15:
		d.versions()
	case 16:
		d.halves()
	}
}

// add adds a post at a time.
func (d *drawing) add(at time.Duration, p Post) {
	d.n++
	p.N, p.Text = d.n, "hello"
	d.Acts = append(d.Acts, Act{At: at, Post: &p})
}

// crowd is many servers that are in trouble at once, while calls to the table are
// slow.
func (d *drawing) crowd() {
	d.Latency.Typical = 300*time.Millisecond + d.within(200*time.Millisecond)
	at := d.within(d.span)
	var all []Inbox
	for i := range 20 + d.IntN(20) {
		s := Server{Host: fmt.Sprintf("crowd%d.example", i)}
		if d.is(0.8) {
			a := Answer{Kind: Says, Status: 429, RetryAfter: pick(d.chances, "60", "3600")}
			s.Phases = []Phase{{at, a}, {at + hour, Answer{Kind: Accepts}}}
		}
		d.Servers, all = append(d.Servers, s), append(all, Inbox{s.Host, "/inbox"})
	}
	for range 1 + d.IntN(5) {
		d.add(at+d.within(hour/2), Post{Recipients: all})
	}
}

// flapping is a server that goes down and comes back all the time, and gets activities all the
// time, so that its lot is closed while others park in it.
func (d *drawing) flapping() {
	s := Server{Host: "flapping.example"}
	at := d.within(d.span)
	for from, n := at, 10+d.IntN(20); n > 0; n-- {
		down := 30*time.Second + d.within(4*minute)
		s.Phases = append(s.Phases, Phase{from, Answer{Kind: Refuses}}, Phase{from + down, Answer{Kind: Accepts}})
		for range 3 + d.IntN(15) {
			d.add(from+d.within(down+10*minute), Post{Recipients: []Inbox{{s.Host, pick(d.chances, "/inbox", "/u1/inbox")}}})
		}
		from += down + 2*minute + d.within(20*minute)
	}
	if d.is(0.6) {
		// Deliveries over a limit are parked while others are released.
		d.Acts = append(d.Acts, Act{At: at, Do: Limit, Host: s.Host, Rate: 2 + d.IntN(20)})
	}
	d.Servers = append(d.Servers, s)
	d.Latency.Typical = pick(d.chances, 0, 100*time.Millisecond, 400*time.Millisecond)
	d.Faults.Fail, d.Faults.Die = 0.06, 0.003
	d.Faults.Until = max(d.Faults.Until, s.Phases[len(s.Phases)-1].From+hour)
}

// duels are calls that are tried again while the first try is still under way, or that outlast
// their leases, and failing writes.
func (d *drawing) duels() {
	d.Settings["DEDUPLICATION_FALLBACK"] = "open"
	s := Server{Host: "duels.example"}
	d.Servers = append(d.Servers, s)
	at := d.within(d.span)
	for i := range 30 + d.IntN(60) {
		d.add(at+d.within(hour), Post{Recipients: []Inbox{{s.Host, "/inbox"}}, Dedup: fmt.Sprint("duel ", i), Patience: 3, Twins: d.IntN(2)})
	}
	d.Faults.Fail, d.Faults.Stuck = 0.01, 0.005
	d.Faults.Storms = append(d.Faults.Storms, Span{at, at + hour + 10*minute})
	d.Faults.Until = max(d.Faults.Until, at+hour+10*minute)
}

// watchLots finds deliveries that are parked where nobody looks: the server's state says that none
// are, and nothing is due for it.
func (s *sim) watchLots(host string) {
	before := map[parking.ID]bool{}
	for time.Since(s.began) < s.scenario.Faults.Until+day {
		s.wait("watch "+host, 10*minute)
		if s.over.Load() {
			return
		}
		forgotten := map[parking.ID]bool{}
		for _, id := range s.unseen(host) {
			if forgotten[id] = true; before[id] {
				s.fail("orphaned", "activity %s is parked under %s, which is said to have nothing parked, and nothing is due for it", id.Activity, host)
			}
		}
		before = forgotten
	}
}

// unseen returns what is parked for a host if its state says that nothing is.
func (s *sim) unseen(host string) []parking.ID {
	ctx, key := context.Background(), circuit.HostKey(host)
	state, err := circuit.Load(ctx, s.raw, key)
	if err != nil || state.Parked || !state.CheckAt.IsZero() {
		return nil
	}
	var all []parking.ID
	for shard := range parking.Shards {
		ps, _, err := s.raw.ParkedUnder(ctx, key, shard, "", 100)
		if err != nil {
			s.fail("orphaned", "look into the lot of %s: %v", host, err)
		}
		for _, p := range ps {
			all = append(all, p.ID())
		}
	}
	return all
}
