// Package simulation runs stories of weeks in which all of fedpost works at once
// while everything around it fails, and finds the shortest one that breaks a
// promise.
//
// A sweep breaks each call once and finds what a single crash does. It cannot
// find mixtures: a limit, a hundred ordering keys and a retry; two workers at one
// bad moment; the thirty-eighth day of a pause. So whole deployments are run here,
// in the manner of FoundationDB's simulation and of TigerBeetle's VOPR. Four
// things make that useful:
//
// The whole of fedpost runs: the API, the deliver function, the scheduled one, as
// package app puts them together. Only what is outside is replaced: the engine by
// maps (package memory), other servers by a RoundTripper, time by the bubble of
// testing/synctest, in which a week takes milliseconds.
//
// The same seed is the same story. Each call to a port is held, and the seed
// decides which goes on (scheduler). Every draw depends on names, not on a stream
// of numbers, so a story without one of its parts remains much the same story.
//
// A seed draws what its story has, and how much of it (draw): swarm testing (Groce
// et al., 2012). A mixture of everything, always, would hide defects that need
// something to be absent.
//
// Promises are checked as soon as that is possible: doubles and order when a server
// accepts, gaps in records seconds later, the state of a recipient when its
// servers' troubles allow it to be finished (expect), what is left at the end, and
// the costs. Goroutines are counted at each call (load), and what the maps, lists and
// channels of a process have, from time to time (entries, keeps).
//
// A new test is seldom a Test function. Four ways, from the cheapest:
//
//   - A seed that failed: add it to regressions (longRegressions if it takes over half a second).
//   - A situation that chance alone does not make: a method of drawing beside closing and held
//     (situations.go) that appends Servers, Acts and Faults to the scenario, and a case for it
//     in rare.
//   - A promise: where it can be known, `s.fail("kind", "what came, and what was promised")`;
//     beside ends (ends.go) for what must hold at the end, or book.go for what an inbox sees.
//     Add the kind to the table of docs/testing.md.
//   - A defect to be measured by: the smallest change that makes it, in testdata/mutants.patch;
//     `make simulate-mutants` has to find it.
//
// `make simulate SEEDS=1 FROM=1022` runs one seed, and prints the shortest story if it fails.
package simulation

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"fedpost/internal/app/config"
	"fedpost/internal/app/topology"
	"fedpost/internal/engine/queue"
	"fedpost/internal/keys"
	"fedpost/internal/store"
	"fedpost/internal/testkit/memory"
	"fedpost/internal/testkit/sipherpeer"
)

// Violation is a promise that was not kept.
type Violation struct {
	// Kind names the promise: a shorter story has to break the same.
	Kind string
	Text string
	At   time.Duration
}

// Result is how a story ended.
type Result struct {
	Scenario  Scenario
	Violation *Violation
	// Trace is a digest of all that happened, call by call.
	Trace uint64
	// Calls to ports, time that passed, requests to inboxes.
	Calls, Requests int
	Span            time.Duration
	// Troubles are the calls that failed; Lines say what happened.
	Troubles map[string]Trouble
	Lines    []string
}

// sim is a story under way.
type sim struct {
	*scheduler
	scenario  Scenario
	settings  config.Local
	engine    *memory.Engine
	raw       *store.Store
	book      *book
	servers   map[string]*server
	us        *sipherpeer.Peer // has our keys in the Sipher network
	relaying  *process         // whose request Sipher servers work on
	processes map[string]*process
	back      time.Duration // by how much the clocks of all processes are set back
	began     time.Time
	all       sync.WaitGroup
	// actors are our own goroutines, others those that were there before the story.
	actors atomic.Int64
	others int
	names  int  // that a process may know
	load   load // of all processes
	failed atomic.Bool
}

// Run runs the story of a scenario. It must not run beside other tests, because it replaces the
// random numbers of crypto/rand.
func Run(t *testing.T, sc Scenario) (r Result) {
	t.Helper()
	// Only one goroutine runs at a time, and is then not woken on another core.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // an eighth of the processor time, for 70 MB
	cryptotest.SetGlobalRandom(t, sc.Seed)
	synctest.Test(t, func(t *testing.T) { r = run(t, sc) })
	return r
}

// verbose reports every call.
var verbose bool

func run(t *testing.T, sc Scenario) Result {
	story := &story{began: time.Now(), troubles: map[string]Trouble{}, verbose: verbose}
	s := &sim{
		scheduler: newScheduler(sc.Seed, story), scenario: sc, began: time.Now(),
		servers: map[string]*server{}, processes: map[string]*process{},
	}
	settings := maps.Clone(sc.Settings)
	if sc.speaksSipher() {
		s.us = sipherpeer.New(t, ownOrigin)
		maps.Copy(settings, s.us.Settings())
	}
	if err := config.From(&s.settings, settings); err != nil {
		t.Fatal(err)
	}
	if !sc.crowded() {
		s.settings.Concurrency.PerHost, s.settings.Concurrency.Deliveries, s.settings.Sipher.Deliveries = 1<<20, 1<<20, 1<<20
	}
	s.engine = memory.NewOf(s.settings.Queueing.Kind(), time.Now, queueConfigs())
	s.raw = store.New(s.engine.Table(), time.Now)
	s.book = newBook(s)
	for _, spec := range sc.Servers {
		s.servers[spec.Host] = &server{Server: spec, once: map[Answer]bool{}}
		if spec.Sipher != nil {
			s.join(t, s.servers[spec.Host])
		}
	}
	s.prepare(t)
	s.others, s.names = runtime.NumGoroutine(), sc.names()
	for _, spec := range sc.Processes {
		p := s.start(spec, 0)
		s.processes[spec.Name] = p
		p.run()
	}
	s.goes(s.sweeper)
	for _, a := range sc.Acts {
		s.goes(func() { s.act(a) })
	}
	for _, spec := range sc.Servers {
		if len(spec.Phases) >= 20 {
			s.goes(func() { s.watchLots(spec.Host) })
		}
	}
	s.expectAll()
	s.explainAll()
	end := s.began.Add(s.end())
	s.scheduler.run(end, func() {
		s.checkGoroutines()
		s.checkMemory()
		if s.failed.Load() {
			s.over.Store(true)
		}
	})
	if !s.failed.Load() {
		s.checkEnd()
	}
	span := time.Since(s.began)
	for _, p := range s.processes {
		p.end()
	}
	s.stop()
	s.all.Wait()
	time.Sleep(time.Minute) // virtual: whoever checks that the table can be written sees that nobody waits
	return Result{
		Scenario: sc, Violation: s.book.violation, Trace: story.hash, Calls: s.steps, Requests: s.book.requests,
		Span: span, Troubles: story.troubles, Lines: story.lines,
	}
}

// goes starts an actor.
func (s *sim) goes(f func()) {
	s.actors.Add(1)
	s.all.Go(func() {
		defer s.actors.Add(-1)
		f()
	})
}

func queueConfigs() map[queue.Name]queue.Config {
	m := map[queue.Name]queue.Config{}
	for _, n := range queue.Names {
		q := topology.Of(n)
		m[n] = queue.Config{Visibility: q.Visibility, MaxReceives: q.MaxReceives, Retention: q.Retention}
	}
	return m
}

// prepare stores the keys of the actors.
func (s *sim) prepare(t *testing.T) {
	ring := keys.New(s.raw, plainSealer{}, keys.Options{Now: time.Now})
	for i := range s.scenario.signers() {
		if _, err := ring.Put(context.Background(), keyID(i), keyPEM(i, 0)); err != nil {
			t.Fatal(err)
		}
	}
}

// sweeper drops what has expired, late, as DynamoDB does.
func (s *sim) sweeper() {
	for !s.over.Load() {
		s.wait("sweeper", 12*time.Hour)
		if !s.over.Load() {
			s.engine.Sweep(time.Now().Add(-time.Hour))
		}
	}
}

// only, if not empty, are the kinds of promises that are checked.
var only []string

// fail records the first promise that was broken, with which the story ends.
func (s *sim) fail(kind, format string, args ...any) {
	if len(only) > 0 && !slices.Contains(only, kind) || s.failed.Swap(true) {
		return
	}
	s.book.violation = &Violation{Kind: kind, Text: fmt.Sprintf(format, args...), At: time.Since(s.began)}
	s.story.print("BROKEN %s: %s", kind, s.book.violation.Text)
}

// end is when all work should be done.
func (s *sim) end() time.Duration {
	last := time.Duration(0)
	for _, a := range s.scenario.Acts {
		last = max(last, a.At+a.For)
	}
	ends := append(slices.Clone(s.book.deadlines), last+time.Hour, s.scenario.Faults.Until+time.Hour)
	return slices.Max(ends) + time.Hour
}
