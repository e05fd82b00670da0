// Package engines opens the engines that a test can run on: the embedded engine and, if the
// environment names servers, PostgreSQL, and SQS and DynamoDB. A test that is written against
// an Instance runs on every engine with the same code.
//
// Tests that span days need engines that follow the test's clock. The embedded engine and the
// one on PostgreSQL take a clock. SQS does not, so each of its queues is wrapped in a queue
// that keeps delays and visibility timeouts by the test's clock (see virtual).
//
// A plan of faults can break the calls of every engine: those of the embedded engine, of
// PostgreSQL and of the engine of maps at the ports, those of SQS and DynamoDB on the wire,
// below the SDK, where real requests break.
//
// A new test takes Default, unless it shows something of an engine:
//
//	i := engines.Default().Open(t, engines.Options{Now: clock.Now})
//	s := store.New(i.Table(), clock.Now)
//
// A new crash sweep on all engines opens each under the plan that it gets:
//
//	engines.Sweep(t, func(t *testing.T, e engines.Engine, p *faults.Plan) {
//		queues, table := e.Open(t, engines.Options{Now: clock.Now}).Under(p)
//		… // the work; p.Revive(); what must hold
//	})
package engines

import (
	"cmp"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/testkit/faults"
	"fedpost/internal/testkit/long"
)

// Engine opens instances. The zero value is the embedded engine.
type Engine struct {
	Name string
	// Remote: every call goes to another server.
	Remote bool
	// Type is the type of the queues, if the options do not say.
	Type queue.Type

	kinds   []faults.Kind // of a sweep; nil for all
	thin    int           // see faults.Sweeper
	few     int           // see faults.Sweeper
	require func(t testing.TB)
	open    func(t testing.TB, o Options) Instance
}

// Default returns the engine of tests that are about no engine: maps, which take a quarter of
// the processor time, and the embedded engine where long tests run (package long).
func Default() Engine { return long.Pick(Maps, Embedded)() }

// Options of an instance.
type Options struct {
	// Now is the test's clock.
	Now func() time.Time
	// Queues are the queues' settings. Engines on servers heed only Visibility: no
	// test with a single fault needs the others.
	Queues map[queue.Name]queue.Config
	// Type is the type of the queues.
	Type queue.Type
	// Path is the data file of the embedded engine; if Path is empty, the data is in
	// memory. Other engines ignore Path.
	Path string
}

// Instance is an engine of one test, fresh and empty.
type Instance interface {
	Queue(n queue.Name) queue.Queue
	Table() table.Table
	// Under returns the same queues and table under a plan, which counts and breaks
	// their calls.
	Under(p *faults.Plan) (func(queue.Name) queue.Queue, table.Table)
}

// Open opens an instance. It skips the test if the engine needs servers and the
// environment names none.
func (e Engine) Open(t testing.TB, o Options) Instance {
	t.Helper()
	o.Type = cmp.Or(o.Type, e.Type)
	if e.open == nil {
		return OpenEmbedded(t, o)
	}
	if e.require != nil {
		e.require(t)
	}
	return e.open(t, o)
}

// Sweep runs faults.Sweep on every engine, in a subtest with the engine's name. At the ports a
// fault does not reach the engine, so only the quick engine of maps has each call broken in every
// way. Others have fewer broken, in one way each, the kind of fault changing from call to call:
// every second call with FIFO queues, every third on the embedded engine, every fifth on
// PostgreSQL. Unless long tests run, at most 8 calls are broken with FIFO queues, 6 on the embedded
// engine, and 24 on others.
//
// On the wire only those kinds are tried whose result can differ from a fault at the ports. Without
// the SDK's retries these are a request that fails, one whose answer is lost, and one after which
// the process dies. With retries it is the lost answer: the retry meets the work of the first
// attempt. FEDPOST_SWEEP_PART (1/2, say) names the part of the calls to break on the wire; unset:
// all.
func Sweep(t *testing.T, run func(t *testing.T, e Engine, p *faults.Plan)) {
	t.Helper()
	sweep(t, run, Maps(), MapsFIFO(), Embedded(), Postgres(), PostgresFIFO(), AWS(), AWSFIFO(), AWSWithoutRetries())
}

// SweepOrdered is Sweep for work on the ordered queue alone, which is a FIFO queue whatever
// the type of the other queues.
func SweepOrdered(t *testing.T, run func(t *testing.T, e Engine, p *faults.Plan)) {
	t.Helper()
	sweep(t, run, Maps(), Embedded(), Postgres(), AWS(), AWSWithoutRetries())
}

func sweep(t *testing.T, run func(t *testing.T, e Engine, p *faults.Plan), engines ...Engine) {
	t.Helper()
	for _, e := range engines {
		t.Run(e.Name, func(t *testing.T) {
			if e.require != nil {
				e.require(t)
			}
			var broken atomic.Int64
			t.Cleanup(func() { t.Logf("%d times a call was broken", broken.Load()) })
			sweeper := faults.Sweeper{Kinds: e.kinds, Parallel: true, Thin: e.thin, Few: e.few}
			if e.Remote {
				sweeper.Part = part(t)
			}
			sweeper.Sweep(t, func(t *testing.T, p *faults.Plan) {
				run(t, e, p)
				broken.Add(int64(p.Fired()))
			})
		})
	}
}

// part is the part of a sweep that FEDPOST_SWEEP_PART names, such as 1/2.
func part(t testing.TB) faults.Part {
	t.Helper()
	p, err := faults.ParsePart(os.Getenv("FEDPOST_SWEEP_PART"))
	if err != nil {
		t.Fatalf("FEDPOST_SWEEP_PART: %v", err)
	}
	return p
}
