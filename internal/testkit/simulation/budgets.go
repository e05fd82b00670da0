package simulation

import (
	"time"

	"fedpost/internal/healthcheck"
)

// What things may cost. Each is a promise of the design, or a round number above what was measured
// in stories without defects.
const (
	// mostPosts within a day to a host that accepts none.
	mostPosts = 50
	// spent is from how many of them on no trial of two signature forms fits in any more: the next
	// check comes a day later.
	spent = mostPosts - 2
	// countedAgain are the requests by which fedpost's count may be ahead: where the answer to the write
	// of a host's state is lost, its attempt is counted again.
	countedAgain = 6
	// underWay at once, on top, within the hour after a host took something: those of three
	// workers with eight attempts each at a host, of two forms.
	underWay = 100
	// mostServerWrites of a host's state within a minute by each process: one a
	// second.
	mostServerWrites = 60
	// mostDropped activities in a signature form that a host never asked for: while it answers 403
	// to its own form, the form cannot be known.
	mostDropped = 3
	// mostCalls one after another between an answer and its record.
	mostCalls = 5
	// mostReceives of a delivery if only servers fail. A server that throttles for a week costs 30:
	// nine pauses that double from 2 minutes, one of 12 hours for each half day that is left, and
	// the first tries. The head of an ordered group to an inbox that accepts nothing for a week
	// costs 31, if other inboxes of its server accept between two outages: planning, 5 tries, 6 at
	// the quick checks of the first outage, 6 at those of its inbox, 5 at the second, and 8 days.
	mostReceives = 31
)

// spent is from how many requests in vain on a host's budget may be spent.
func (s *sim) spent() int {
	if f := s.scenario.Faults; f.Lose > 0 || len(f.At) > 0 {
		return spent - countedAgain
	}
	return spent
}

// What the memory of a process may have.
const (
	// mostGoroutines of a process beside those of what is under way: 4 pollers for each of 4 queues,
	// and a few that begin or end.
	mostGoroutines = 32
	// mostSaves of states of hosts are under way at once.
	mostSaves = 64
	// mostResting entries of a map, list, slice or channel while nothing is under way, unless it
	// remembers what is merely known.
	mostResting = 16
	// entriesEach is for each message under way: it has up to 100 recipients.
	entriesEach = 100
	// mostLogged events are remembered of the logs.
	mostLogged = 10_000
)

// goroutinesEach is how many goroutines each of what is under way may have.
var goroutinesEach = [works]int{messages: 2, attempts: 2, requests: 8, runs: healthcheck.DefaultProbes + 24, saves: 1}

// When the memory is looked at: a process rests if nothing was under way for restAfter. One that
// rests is looked at again after lookEvery, any after lookSteps, as that takes time.
const (
	restAfter = 5 * time.Minute
	lookEvery = 48 * time.Hour
	lookSteps = 4096
)
