package simulation

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// keeps is what a process has in memory.
type keeps struct {
	roots []any
	// fresh are the entries that it had before it knew anybody.
	fresh map[string]int
	// worked is when anything was under way last, looked when it was last looked at while it rested.
	worked, looked time.Time
}

func keepsOf(roots ...any) keeps {
	return keeps{roots: roots, fresh: entriesOf(roots...), worked: time.Now()}
}

// remembered are the fields that keep what is merely known. Each is bounded by a constant of its
// package, as strangers choose the hosts; a story has far fewer.
var remembered = []string{
	"admission.plan.hosts", "admission.plan.sites", "bodies.Bodies.of", "bodies.Bodies.old",
	"cache.Hosts.known", "cache.Hosts.accepting", "cache.Hosts.others", "cache.host.in", "cache.host.unsaved", "keys.cache[",
	"peers.Discovery.failures", "peers.RateLimit.free", "peers.callbacks.targets", "peers.directory.servers",
	"queue.FairOrder.last", "ratelimit.Stash.slots", "stats.Tally.days",
}

// logged keep the ids of events, and the last events, of the logs.
var logged = []string{"store.eventItem.Events", "store.logEnd.known"}

// mayRemember reports whether a field keeps what is merely known. A process that may be frozen after
// an invocation saves the rest of what it has learnt at the end of its next one.
func (p *process) mayRemember(field string) bool {
	return has(remembered, field) || p.spec.Places == 0 && field == "cache.Hosts.pending"
}

func has(prefixes []string, field string) bool {
	return slices.ContainsFunc(prefixes, func(f string) bool { return strings.HasPrefix(field, f) })
}

// checkMemory looks at the processes: while they rest, but not too often, and now and then.
func (s *sim) checkMemory() {
	for _, spec := range s.scenario.Processes {
		p, now := s.processes[spec.Name], time.Now()
		if p.dead.Load() {
			continue
		}
		if !p.load.none() {
			p.keeps.worked = now
		}
		switch rests := p.rests(); {
		case rests && now.Sub(p.keeps.looked) >= lookEvery:
			p.keeps.looked = now
			p.look(true)
		case s.steps%lookSteps == 0:
			p.look(rests)
		}
	}
}

// rests reports whether nothing has been under way for some minutes.
func (p *process) rests() bool { return time.Since(p.keeps.worked) >= restAfter }

// look checks how much the process keeps.
func (p *process) look(rests bool) {
	got := entriesOf(p.keeps.roots...)
	for _, field := range slices.Sorted(maps.Keys(got)) {
		n, most, why := got[field]-p.keeps.fresh[field], mostResting, "although nothing is under way"
		switch {
		case has(logged, field):
			most, why = mostLogged, "of events"
		case p.mayRemember(field):
			most, why = p.names, "of all that it may know"
		case !rests:
			under := int(p.load[messages].Load())
			most, why = p.names+entriesEach*under, "of all that it may know and has under way"
		}
		if n > most {
			p.fail("memory", "%s keeps %d entries in %s %s (at most %d)", p.name(), n, field, why, most)
		}
	}
}

// names is how many hosts, inboxes, keys at each of them, and activities a story has.
func (sc Scenario) names() int {
	inboxes := map[Inbox]bool{}
	n := mostResting
	for _, a := range sc.Acts {
		if a.Post != nil {
			n++
			for _, r := range a.Post.Recipients {
				inboxes[r] = true
			}
		}
	}
	return n + (len(sc.Servers)+len(inboxes))*(1+sc.signers())
}
