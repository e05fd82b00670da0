// Package storetest is the contract of the store's verbs, as a suite that every engine
// runs. The verbs are the same code on every engine, so a failure on one engine alone
// is a fault of that engine's conditions, consistency or index.
//
// A new case is a row of the group of its verbs, on a bed: the store, and a clock moved by hand.
//
//	var notes = group{"redundancy and rates", []testCase{
//		{"ARecordIsReadAsItWasSaved", func(b *bed) {
//			created := b.created(3) // an activity to three recipients
//			b.advance(time.Hour)
//			b.same(created, b.record(created.ID))
//		}},
//	}}
package storetest

import (
	"context"
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fedpost/internal/activity"
	"fedpost/internal/engine/table"
	"fedpost/internal/store"
)

// Harness is what an engine brings to one test.
type Harness struct {
	// Table may be shared with other tests: all names that the suite uses are
	// random.
	Table table.Table
	// Settle waits until the due index has caught up with the writes; nil if it
	// never lags.
	Settle func()
	// Whole runs the slow cases with all their rows; unset, with a part of them.
	Whole bool
	// Check runs a property on many draws: rapid.Check, with the seed that the caller wants.
	Check func(*testing.T, func(*rapid.T))
}

// Open returns the harness of a test, whose clock is now. Of an engine with a
// clock of its own it is enough that it does not run ahead of that.
type Open func(t *testing.T, now func() time.Time) Harness

// Run tests the store on the tables that open returns.
func Run(t *testing.T, open Open) {
	for _, g := range []group{activities, ordered, claims, races, records, clients, lots, servers, deadLetters, notes, contents, finding, views, costs, model, markers, payloads, tasks, signingKeys, feed, webhooks} {
		t.Run(g.name, func(t *testing.T) {
			for _, c := range g.cases {
				t.Run(c.name, func(t *testing.T) { c.test(newBed(t, open)) })
			}
		})
	}
}

type group struct {
	name  string
	cases []testCase
}

type testCase struct {
	name string
	test func(*bed)
}

// property is a test that makes many random runs, each of one activity or so.
func property(run func(*bed, *rapid.T)) func(*bed) {
	return func(b *bed) {
		b.check(b.t.(*testing.T), func(rt *rapid.T) {
			one := *b
			one.t = rt
			run(&one, rt)
		})
	}
}

// bed is a store with the table below it and the clock above.
type bed struct {
	*store.Store
	*clock
	t      tester
	table  *meter
	settle func()
	whole  bool
	check  func(*testing.T, func(*rapid.T))
	ctx    context.Context
	tasks  map[string]bool // ids of this test's
}

// tester is what the suite needs of a *testing.T or *rapid.T.
type tester interface {
	Helper()
	Logf(format string, args ...any)
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func newBed(t *testing.T, open Open) *bed {
	// Whole seconds, which is what every engine can keep of an expiry.
	c := &clock{now: time.Now().UTC().Truncate(time.Second)}
	h := open(t, c.Now)
	if h.Settle == nil {
		h.Settle = func() {}
	}
	m := &meter{Table: h.Table}
	return &bed{Store: store.New(m, c.Now), clock: c, t: t, table: m, settle: h.Settle, whole: h.Whole, check: h.Check, ctx: t.Context(), tasks: map[string]bool{}}
}

// pick returns the number of rows of a slow case.
func (b *bed) pick(fast, whole int) int {
	if b.whole {
		return whole
	}
	return fast
}

func (b *bed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// clock is moved by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (c *clock) in(d time.Duration) time.Time { return c.Now().Add(d) }

// newID returns an id that no other test has.
func (b *bed) newID() activity.ID {
	id, err := activity.NewID(b.Now(), rand.Reader)
	b.must(err)
	return id
}
