package sqlite

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"
)

// groups has callers write one after the other, each rounds times, and returns the sizes of
// the groups that g makes of it.
func groups(t *testing.T, g *gatherer, callers, rounds int) []int {
	t.Helper()
	// On one processor the order in which goroutines run is Go's alone, however busy the machine is.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	jobs := make(chan *job)
	g.jobs = jobs
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range rounds {
				if err := submit(context.Background(), jobs, nil, newJob(read, nil)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var sizes []int
	var group []*job
	for left := callers * rounds; left > 0; left -= len(group) {
		group = g.group(group[:0], <-jobs)
		sizes = append(sizes, len(group))
		runtime.Gosched() // as a sync does: those that have not been answered come to wait
		for _, j := range group {
			close(j.done)
		}
	}
	wg.Wait()
	return sizes
}

// TestCallersThatWereAnsweredTogetherWriteTogether: the first of them to write again does not
// get a commit of its own.
func TestCallersThatWereAnsweredTogetherWriteTogether(t *testing.T) {
	const callers, rounds = 8, 300
	still := func() time.Time { return time.Time{} }
	sizes := groups(t, &gatherer{now: still}, callers, rounds)
	// All of them share each commit, but where Go's scheduler, now and then, returns to the writer first.
	if most := rounds * 3 / 2; len(sizes) > most {
		t.Errorf("%d writes of %d callers took %d commits, want at most %d", callers*rounds, callers, len(sizes), most)
	}
}

// TestAGroupDoesNotWaitWhereWaitsAreSlow: most commits do without a wait where each wait takes
// long, and whoever writes alone never waits.
func TestAGroupDoesNotWaitWhereWaitsAreSlow(t *testing.T) {
	for name, c := range map[string]struct {
		callers int
		waits   func(groups int) int
	}{
		"several callers": {8, func(groups int) int { return groups/unyielding + 1 }},
		"one caller":      {1, func(int) int { return 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			looked := 0
			slow := func() time.Time {
				looked++
				return time.Time{}.Add(time.Duration(looked) * (slowYield + 1))
			}
			sizes := groups(t, &gatherer{now: slow}, c.callers, 300)
			// Each wait looks at the clock before and after.
			if waits, most := looked/2, c.waits(len(sizes)); waits > most || c.callers > 1 && waits == 0 {
				t.Errorf("%d of %d groups waited, want at most %d", waits, len(sizes), most)
			}
		})
	}
}

// TestAGroupHasABound: however many write, and keep writing, while a group waits.
func TestAGroupHasABound(t *testing.T) {
	for _, size := range groups(t, &gatherer{now: time.Now}, 3*maxGroup, 4) {
		if size > maxGroup {
			t.Errorf("a group of %d writes, want at most %d", size, maxGroup)
		}
	}
}
