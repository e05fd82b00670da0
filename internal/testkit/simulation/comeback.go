package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// comebacks draws whether dead deliveries are revived when their server is back, and at times a
// server that is down for longer than deliveries are tried. It has random numbers of its own.
func (d *drawing) comebacks() {
	rest := d.chances
	defer func() { d.chances = rest }()
	d.chances = chances{rand.New(rand.NewPCG(d.Seed, 77))}
	d.Settings["REVIVE_WITHIN"] = pick(d.chances, "0", "30d")
	if d.Settings["REVIVE_WITHIN"] == "0" || !d.is(0.15) {
		return
	}
	s := Server{Host: "comeback.example"}
	at := d.within(d.span)
	for range 1 + d.IntN(2) {
		down := giveUp - day + d.within(25*day)
		s.Phases = append(s.Phases, Phase{at, pick(d.chances, Answer{Kind: Refuses}, Answer{Kind: Says, Status: 500}, Answer{Kind: Hangs})})
		for i := range 2 + d.IntN(12) {
			p := Post{Recipients: []Inbox{{s.Host, pick(d.chances, "/inbox", "/u1/inbox")}}}
			if d.is(0.3) {
				p.Ordering = fmt.Sprint("comeback ", i%2)
			}
			d.add(at-minute+d.between(time.Second, down), p)
		}
		at += down
		s.Phases = append(s.Phases, Phase{at, Answer{Kind: Accepts}})
		at += d.between(10*minute, 4*day)
	}
	d.Servers = append(d.Servers, s)
	d.lines()
}

// revives is how long after its death a delivery may be revived; 0: never.
func (s *sim) revives() time.Duration { return s.settings.Circuit.Revive }

// lives is how much longer a delivery may take that dies, if its server comes back at the last
// moment and goes down again.
func (s *sim) lives(host string) time.Duration {
	if s.revives() == 0 {
		return 0
	}
	return s.revives() + giveUp + 2*slow + s.slack(host)
}

// ramp is how long a server that is back gets what waited for it, revived deliveries included.
const ramp = 2 * time.Hour

// comeback returns the expectation for a delivery that may die. If it surely dies because its
// server is down, and nothing else is wrong, it is delivered once the server is back in time.
func (s *sim) comeback(p Post, to Inbox, due time.Duration, end expectation) expectation {
	end.by += s.lives(to.Server)
	if !s.diesOfItsServer(p, to, due) {
		return end
	}
	var outage Span
	for _, trouble := range append(s.troubles(p, to), Span{1 << 62, 1 << 62}) {
		switch by := outage.To + patience(outage) + s.slack(to.Server) + ramp; {
		case outage.To == 0:
			if trouble.From <= due+giveUp-hour && trouble.To >= due+giveUp+slow+hour {
				outage = trouble
			}
		case by < min(trouble.From, due+giveUp+s.revives()):
			return expectation{by: by, must: true}
		default:
			outage.To = max(outage.To, trouble.To)
		}
	}
	return end
}

// diesOfItsServer reports whether only an outage of a whole server can end a delivery. The order of
// deliveries and the faults of single inboxes have rules of their own.
func (s *sim) diesOfItsServer(p Post, to Inbox, due time.Duration) bool {
	spec := s.servers[to.Server].Server
	return s.revives() > 0 && s.settings.Limits.Retention > giveUp+s.revives()+slow && p.Ordering == "" &&
		len(spec.Inboxes) == 0 && !spec.Strict && spec.Rate == 0 && !s.mayEnd(p, to, 0) &&
		!slices.ContainsFunc(spec.Phases, func(ph Phase) bool { return ph.Answer.troubles() && !ph.Answer.takesServerDown() }) &&
		!slices.ContainsFunc(s.scenario.Acts, func(a Act) bool { return a.Host == to.Server || a.Do == SetBack })
}

// takesServerDown reports whether an answer shows that a server is down for all. A 5xx of one inbox
// is its own as long as no other inbox is tried: deliveries that die of it are not revived with the
// server.
func (a Answer) takesServerDown() bool {
	switch a.Kind {
	case Refuses, Resets, Hangs, Rants:
		return true
	}
	return false
}
