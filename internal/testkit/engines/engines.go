// Package engines opens the engines that a test can stand on: the embedded
// one and, where servers for it are named, SQS and DynamoDB. A test that is
// written against an Instance runs on each of them, with the same code.
//
// What makes that possible for tests about days is that both keep the test's
// time. The embedded engine takes a clock; a server does not, so its queues are
// wrapped in one that waits in the test's time instead of the server's (see
// virtual). And both can be put under a plan of faults: the embedded engine at
// its ports, the other on the wire, below the SDK, where real calls break.
package engines

import (
	"sync/atomic"
	"testing"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/sqlite"
	"fedpost/internal/engine/table"
	"fedpost/internal/testkit/faults"
)

// Engine opens instances. The zero value is the embedded one.
type Engine struct {
	Name string
	// Remote: every call goes to another server.
	Remote bool

	kinds   []faults.Kind // of a sweep; nil for all
	require func(t testing.TB)
	open    func(t testing.TB, o Options) Instance
}

// Options of an instance.
type Options struct {
	// Now is the test's clock.
	Now func() time.Time
	// Queues are the queues' settings. Of engines that are servers, only
	// Visibility is kept: what no test with one fault comes to, is not imitated.
	Queues map[queue.Name]sqlite.QueueConfig
	// Path is the data file of an engine that has one; in memory if empty.
	Path string
}

// Instance is an engine of one test, fresh and empty.
type Instance interface {
	Queue(n queue.Name) queue.Queue
	Table() table.Table
	// Under returns the same queues and table with calls that a plan counts and
	// breaks.
	Under(p *faults.Plan) (func(queue.Name) queue.Queue, table.Table)
}

// Open opens an instance, or skips the test if the engine needs servers and none
// are named.
func (e Engine) Open(t testing.TB, o Options) Instance {
	t.Helper()
	if e.open == nil {
		return OpenEmbedded(t, o)
	}
	e.require(t)
	return e.open(t, o)
}

// Sweep is faults.Sweep on every engine, as subtests by its name. On the wire it
// tries the kinds that can come out in another way there: a request that fails,
// one that acts and whose answer is lost, and the last that a process makes; and
// of those that the SDK retries the one whose retry meets its own work.
func Sweep(t *testing.T, run func(t *testing.T, e Engine, p *faults.Plan)) {
	t.Helper()
	for _, e := range []Engine{Embedded(), AWS(), AWSWithoutRetries()} {
		t.Run(e.Name, func(t *testing.T) {
			if e.require != nil {
				e.require(t)
			}
			var broken atomic.Int64
			t.Cleanup(func() { t.Logf("%d times a call was broken", broken.Load()) })
			faults.Sweeper{Kinds: e.kinds, Parallel: e.Remote}.Sweep(t, func(t *testing.T, p *faults.Plan) {
				run(t, e, p)
				broken.Add(int64(p.Fired()))
			})
		})
	}
}
