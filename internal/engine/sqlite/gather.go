package sqlite

import (
	"runtime"
	"time"
)

const (
	// maxGroup bounds how many writes share a commit, and so how long the first write
	// of a group waits for the others.
	maxGroup = 256
	// maxYields bounds how often a group waits for more writes.
	maxYields = 4
	// slowYield is how long a wait may take before the next groups go without one.
	slowYield = 5 * time.Millisecond
	// unyielding is how many groups go without a wait after a slow one.
	unyielding = 16
)

// gatherer finds the writes that share a commit.
//
// Callers wait while a commit syncs, so groups grow with the load. But callers that a commit has
// just answered come too late with their next write: the next group would take only the first of
// them. So if the last group had several writes, a group yields to other goroutines first, until a
// yield brings no more writes. A lone writer never waits. A yield needs no timer: it ends when no
// other goroutine is ready to run.
//
// Where the processors are busy with other things (signatures by RSA), a yield takes as long
// as they do, and cannot be cut short. So the groups after a slow yield do not yield.
type gatherer struct {
	jobs   <-chan *job
	now    func() time.Time
	shared bool // the last group had several writes
	rest   int  // groups that do not wait
}

// group appends to group the first write of a commit and those that share it.
func (g *gatherer) group(group []*job, first *job) []*job {
	group = g.waiting(take(group, first))
	if g.rest > 0 {
		g.rest--
	} else if g.shared {
		group = g.yield(group)
	}
	g.shared = len(group) > 1
	return group
}

// waiting adds the writes that are waiting now.
func (g *gatherer) waiting(group []*job) []*job {
	for len(group) < maxGroup {
		select {
		case j := <-g.jobs:
			group = take(group, j)
		default:
			return group
		}
	}
	return group
}

// take appends a job to group unless its caller gave up.
func take(group []*job, j *job) []*job {
	if j.taken.Swap(true) {
		return group
	}
	return append(group, j)
}

// yield lets other goroutines run, and adds the writes that come meanwhile.
func (g *gatherer) yield(group []*job) []*job {
	for range maxYields {
		before, began := len(group), g.now()
		runtime.Gosched()
		group = g.waiting(group)
		if g.now().Sub(began) > slowYield {
			g.rest = unyielding
			return group
		}
		if len(group) == before {
			return group
		}
	}
	return group
}
