package simulation

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// multitudes draws one story in forty of hundreds of hosts that are in trouble at once: whatever a
// process has for each host that it knows and each activity that passes shows there. Such a story
// has nothing else, and random numbers of its own.
func (d *drawing) multitudes() {
	if (chances{rand.New(rand.NewPCG(d.Seed, 70))}).is(1.0 / 40) {
		d.Scenario = multitudeOf(d.Seed)
	}
}

// multitudeOf draws the story of a multitude beside a few hosts that work. Few of its hosts hang,
// as each of them holds a place for 15 s.
func multitudeOf(seed uint64) Scenario {
	c := chances{rand.New(rand.NewPCG(seed, 71))}
	d := &drawing{chances: c, has: map[string]bool{"lambda": c.is(0.1)}}
	d.Seed, d.Settings = seed, map[string]string{}
	if d.processes(); !d.has["lambda"] {
		d.Processes = []Process{{Name: "up", Whole: true, Schedule: true, Places: pick(c, 16, 24, 48)}}
	}
	d.Latency.Typical = pick(c, 0, 0, 5*time.Millisecond)
	known := d.known(6, 0)
	answers := []Answer{
		{Kind: Refuses},
		{Kind: Resets},
		{Kind: Says, Status: 500},
		{Kind: Says, Status: 503},
		{Kind: Rants},
		{Kind: Accepts},
		{Kind: Says, Status: 429, RetryAfter: "60"},
		{Kind: Says, Status: 429},
		{Kind: Says, Status: 401},
	}
	if c.is(0.5) {
		answers = []Answer{pick(c, answers...)} // of all, as when our own network fails
	}
	var all []Inbox
	for i := range 120 + d.IntN(120) {
		s := Server{Host: fmt.Sprintf("many%d.example", i), Phases: []Phase{{badFrom, pick(c, answers...)}, {badFrom + 10*minute, Answer{Kind: Accepts}}}}
		if c.is(0.03) {
			s.Phases[0].Answer = Answer{Kind: Hangs}
		}
		d.Servers, all = append(d.Servers, s), append(all, Inbox{s.Host, "/inbox"})
	}
	within := d.between(10*time.Second, 5*minute)
	for range 15 + d.IntN(8) {
		c.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		to := append([]Inbox{pick(c, known...)}, all[:8+d.IntN(16)]...)
		d.add(badFrom+d.within(within), Post{Recipients: to, Actor: d.IntN(actors)})
	}
	return d.Scenario
}
