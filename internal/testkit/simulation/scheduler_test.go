package simulation

import (
	"maps"
	"runtime"
	"sync"
	"testing"
	"time"

	"fedpost/internal/testkit/faults"
)

// TestEqualCallsAreNamedByWhoMakesThemAndNotByWhoWasFaster: copies of a message in one batch
// make the same call at once. On a busy machine Go preempts goroutines, so the calls arrived
// in any order, and one seed was several stories.
func TestEqualCallsAreNamedByWhoMakesThemAndNotByWhoWasFaster(t *testing.T) {
	names := func(arrived ...int) map[int]string {
		s := newScheduler(1, &story{})
		for _, n := range arrived {
			s.arrived = append(s.arrived, &held{
				Call: faults.Call{Target: "table", Op: "Put", About: "META"}, actor: "normal0", proc: &process{}, at: time.Now(), goroutine: n,
			})
		}
		s.gather()
		all := map[int]string{}
		for _, h := range s.waiting {
			all[h.goroutine] = h.name
		}
		return all
	}
	if in, out := names(1, 2, 3), names(3, 1, 2); len(in) != 3 || !maps.Equal(in, out) {
		t.Errorf("named %v in one order and %v in another", in, out)
	}
}

func TestGoroutinesHaveNumbersInTheOrderInWhichTheyAreStarted(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // as Run has it
	var numbers [100]int
	var all sync.WaitGroup
	for i := range numbers {
		all.Go(func() { numbers[i] = goroutine() })
	}
	all.Wait()
	for i, n := range numbers {
		if n <= 0 || i > 0 && n <= numbers[i-1] {
			t.Fatalf("goroutine %d has the number %d: %v", i, n, numbers)
		}
	}
}
