package simulation

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// hostileOf is the story of a seed in which the first three servers, or their inboxes, go from one
// refusal or failure to the next, and mostly accept nothing in between. What a server costs and
// when its deliveries end depends on what it answered before.
func hostileOf(seed uint64) Scenario {
	c := chances{rand.New(rand.NewPCG(seed, 99))}
	sc := Draw(seed)
	for i := range sc.Servers[:min(3, len(sc.Servers))] {
		s := &sc.Servers[i]
		if s.Sipher != nil {
			continue
		}
		s.Rate, s.Strict = 0, false
		if s.Phases = c.refusals(); c.IntN(3) == 0 {
			s.Phases = nil
			for _, path := range slices.Sorted(maps.Keys(s.Inboxes)) {
				s.Inboxes[path] = c.refusals()
			}
		}
	}
	for _, a := range sc.Acts {
		if a.Post != nil {
			a.Post.Within = 0 // its server works no longer
		}
	}
	return sc
}

// refusals are phases that begin within the first 20 minutes.
func (c chances) refusals() (ps []Phase) {
	at := c.within(20 * minute)
	for range 2 + c.IntN(5) {
		ps = append(ps, Phase{at, Answer{Kind: Says, Status: pick(c, 401, 401, 404, 410, 503, 500, 404, 410, 403, 400)}})
		at += pick(c, minute, 10*minute, hour, 20*hour, 50*hour) + c.within(5*minute)
	}
	if c.IntN(3) == 0 {
		ps = append(ps, Phase{at, Answer{Kind: Accepts}})
	}
	return ps
}
