package simulation

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"fedpost/internal/engine/queue"
)

var (
	seeds   = flag.Uint64("simulate.seeds", 0, "how many seeds TestSimulate runs")
	from    = flag.Uint64("simulate.from", 0, "the first of them; 0 draws it")
	runFor  = flag.Duration("simulate.for", 0, "how long TestSimulate begins new seeds, instead of a number")
	failing = flag.Int("simulate.failing", 3, "after how many failing seeds TestSimulate stops")
	promise = flag.String("simulate.only", "", "the one kind of promise to look at, such as doubled")
	shrink  = flag.Duration("simulate.shrink", 2*time.Minute, "how long TestSimulate shortens a story")
	calls   = flag.Bool("simulate.calls", false, "tell every call of the shortened story, too")
)

// fixed are the seeds that every `go test` runs: always the same, so that nobody's
// change fails by bad luck. What other seeds find is added to regressions.
const fixed = 10

// regressions are seeds that once broke a promise.
var regressions = []uint64{257770807733, 700105, 700110, 800006, 900065, 900148, 920037, 930012, 6456335889, 949071308317, 1085452003311, 5551340, 77120196, 627439253258, 20269000022, 20270000001, 20001383, 20270000159, 20600000186, 20269000072, 20292000012, 20600000080, 880133, 402442273884, 402442273745, 683131326628, 867577944510}

func TestSimulation(t *testing.T) {
	if underRace {
		t.Skip("the race detector runs goroutines in an order of its own")
	}
	n := uint64(fixed)
	if testing.Short() {
		n = 8
	}
	for seed := range n {
		check(t, Draw(seed))
	}
	for _, seed := range regressions {
		check(t, Draw(seed))
	}
	for seed := range n / 3 {
		check(t, Draw(seed).On(queue.FIFO))
	}
}

func check(t *testing.T, sc Scenario) {
	t.Helper()
	if r := Run(t, sc); r.Violation != nil {
		t.Errorf("%s", Shrink(t, r, 30*time.Second))
	}
}

// TestSimulate runs new seeds, for as long as it is told to.
func TestSimulate(t *testing.T) {
	if underRace {
		t.Skip("the race detector runs goroutines in an order of its own")
	}
	if *seeds == 0 && *runFor == 0 {
		t.Skip("neither -simulate.seeds nor -simulate.for is given")
	}
	first := *from
	if first == 0 {
		first = rand.Uint64N(1 << 40)
	}
	only = *promise
	fmt.Printf("seeds from %d\n", first)
	began, found := time.Now(), map[string]int{}
	var span time.Duration
	done, callsMade, requests := uint64(0), 0, 0
	for seed := first; *seeds > done || time.Since(began) < *runFor; seed++ {
		sc := Draw(seed)
		if seed%4 == 3 {
			sc = sc.On(queue.FIFO)
		}
		r := Run(t, sc)
		done, span, callsMade, requests = done+1, span+r.Span, callsMade+r.Calls, requests+r.Requests
		if r.Violation == nil {
			continue
		}
		spent := processorTime()
		short := Shrink(t, r, *shrink)
		if *calls {
			verbose = true
			t.Logf("%s", strings.Join(Run(t, short.Scenario).Told, "\n"))
			verbose = false
		}
		found[r.Violation.Kind]++
		t.Errorf("%s in seed %d, %d seeds and %s of processor time after the first, %d events:\n%s",
			r.Violation.Kind, seed, seed-first+1, spent.Round(time.Second), short.Scenario.events(), short)
		if len(found) >= *failing || found[r.Violation.Kind] >= *failing {
			break
		}
	}
	fmt.Printf("%d seeds, %.0f weeks, %d calls to ports, %d requests to inboxes in %s\n",
		done, span.Hours()/24/7, callsMade, requests, time.Since(began).Round(time.Second))
}

// processorTime is what this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestTheSameSeedIsTheSameStory, call by call, or nothing that is found could be
// looked at twice. One of three tellings may differ: on a starved machine Go may preempt a
// goroutine before one that the same call woke, which no story can prevent. What depends on
// chance differs each time.
func TestTheSameSeedIsTheSameStory(t *testing.T) {
	if underRace {
		t.Skip("the race detector runs goroutines in an order of its own")
	}
	verbose = true
	defer func() { verbose = false }()
	same := func(a, b Result) bool { return a.Trace == b.Trace && a.Calls == b.Calls }
	for seed := range uint64(4) {
		first, second := Run(t, Draw(seed)), Run(t, Draw(seed))
		if same(first, second) {
			continue
		}
		third := Run(t, Draw(seed))
		report := t.Errorf
		if same(first, third) || same(second, third) {
			report = t.Logf
		}
		at := 0
		for at < min(len(first.Told), len(second.Told)) && first.Told[at] == second.Told[at] {
			at++
		}
		next := func(r Result) string { return strings.Join(r.Told[at:min(at+1, len(r.Told))], "") }
		report("seed %d, after %d lines: first\n%s\nand then\n%s", seed, at, next(first), next(second))
	}
}
