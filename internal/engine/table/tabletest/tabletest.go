// Package tabletest is the contract of package table as a suite of tests, which
// every engine runs. The store's state machines rely only on these conditions, so
// an engine that passes the suite runs the whole store correctly.
//
// The suite knows nothing of engines. Each case uses keys of its own, so that
// cases and other runs can share a table.
//
// A new test is an entry of the list of its subject (itemCases, condCases, queryCases and so
// on), named after what it shows. Its keys come from c.key or c.item, its times from c.now, and
// a failure says what came and what was wanted:
//
//	{"PutReplacesAllFields", func(c *check) {
//		c.put(c.item("a", "1"), table.Item{Key: c.key("a")})
//		if got := c.get("a"); got.Fence != "" || got.Data != nil {
//			c.Errorf("got %+v, want an item without a fence and data", got)
//		}
//	}},
//
// All engines run it from then on: `go test ./internal/engine/sqlite ./internal/testkit/memory`,
// and `.ci/run aws` for DynamoDB.
package tabletest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"fedpost/internal/engine/table"
)

// Harness is what an engine gives to one case.
type Harness struct {
	Table table.Table
	// Settle waits until the due index has caught up with the writes; nil if it
	// never lags.
	Settle func()
	// Lacks returns why the server behind the engine cannot pass the case of that
	// name (see Cases), or "". The harness finds the reason by probing the server
	// directly, not through the engine under test. Nil: the server passes all
	// cases.
	Lacks func(name string) string
}

// Cases lists the names of all cases.
func Cases() []string {
	var names []string
	for _, c := range cases() {
		names = append(names, c.name)
	}
	return names
}

// Run runs the suite. Open is called once per case, and cases run in parallel.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := open(t)
			if h.Lacks != nil {
				if reason := h.Lacks(c.name); reason != "" {
					t.Skipf("the server lacks %s: %s", c.name, reason)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			// Times that every engine can store exactly: DynamoDB keeps an expiry
			// in whole seconds and a due time in milliseconds.
			now := time.Now().UTC().Truncate(time.Second)
			c.run(&check{T: t, Harness: h, ctx: ctx, now: now, pk: c.name + "/" + rand.Text()})
		})
	}
}

type testCase struct {
	name string
	run  func(*check)
}

func cases() []testCase {
	return slices.Concat(itemCases, condCases, transactCases, queryCases, bulkCases, dueCases, raceCases)
}

// check is one case that is running.
type check struct {
	*testing.T
	Harness
	ctx context.Context
	now time.Time
	pk  string // a partition of the case's own
}

func (c *check) key(sk string) table.Key { return table.Key{PK: c.pk, SK: sk} }

// item returns an item with all fields set but Due.
func (c *check) item(sk, fence string) table.Item {
	return table.Item{Key: c.key(sk), Fence: fence, Data: []byte("data of " + sk + " " + fence), Expires: c.now.Add(time.Hour)}
}

func (c *check) put(its ...table.Item) {
	c.Helper()
	for _, it := range its {
		if err := c.Table.Put(c.ctx, it, table.Cond{}); err != nil {
			c.Fatalf("put %s: %v", it.SK, err)
		}
	}
}

// get returns the item at sk, nil if there is none.
func (c *check) get(sk string) *table.Item {
	c.Helper()
	got, err := c.Table.Get(c.ctx, c.key(sk))
	if err != nil {
		c.Fatalf("get %s: %v", sk, err)
	}
	it, ok := got[c.key(sk)]
	if !ok {
		return nil
	}
	return &it
}

// holds checks what is stored at sk; nil means nothing.
func (c *check) holds(sk string, want *table.Item) {
	c.Helper()
	got := c.get(sk)
	switch {
	case got == nil && want == nil:
	case got == nil || want == nil:
		c.Errorf("%s holds %v, want %v", sk, got, want)
	case !same(*got, *want):
		c.Errorf("%s holds %v, want %v", sk, *got, *want)
	}
}

// conflict checks that err is a conflict at sk with the item that was found.
func (c *check) conflict(err error, sk string, found *table.Item) {
	c.Helper()
	var ce *table.ConflictError
	if !errors.As(err, &ce) || !errors.Is(err, table.ErrConflict) {
		c.Errorf("error %v, want a conflict", err)
		return
	}
	if ce.Key != c.key(sk) {
		c.Errorf("conflict at %v, want %v", ce.Key, c.key(sk))
	}
	switch {
	case found == nil && ce.Found == nil:
	case found == nil || ce.Found == nil:
		c.Errorf("the conflict found %v, want %v", ce.Found, found)
	case !same(*ce.Found, *found):
		c.Errorf("the conflict found %v, want %v", *ce.Found, *found)
	}
}

func (c *check) settle() {
	if c.Settle != nil {
		c.Settle()
	}
}

func same(a, b table.Item) bool {
	return a.Key == b.Key && a.Fence == b.Fence && bytes.Equal(a.Data, b.Data) && a.Expires.Equal(b.Expires) &&
		a.Due.Shard == b.Due.Shard && a.Due.At.Equal(b.Due.At)
}

func sks(items []table.Item) []string {
	var all []string
	for _, it := range items {
		all = append(all, it.SK)
	}
	return all
}

// callers is how many goroutines a race has.
const callers = 64

// together runs f in callers goroutines.
func together(f func(i int)) {
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}
