package deliver_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/protocol"
	"fedpost/internal/testkit/cost"
	"fedpost/internal/testkit/world"
)

// TestCostWithSlowAnswers counts, in virtual time, what one activity to 1,000
// recipients costs of whom a tenth answers after 1.5 to 4.7 s, the others within
// 0.4 s. Each outcome is recorded within a second of its answer all the same.
func TestCostWithSlowAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		var writes atomic.Int64
		slow := func(_ context.Context, a activity.Activity) protocol.Attempt {
			return func(_ context.Context, to activity.Target, _ int) outcome.Outcome {
				h := fnv.New64a()
				h.Write([]byte(to.Inbox))
				draw := time.Duration(h.Sum64() >> 2)
				takes := draw % (400 * time.Millisecond)
				if draw%10 == 0 {
					takes = 1500*time.Millisecond + draw/10%(3200*time.Millisecond)
				}
				time.Sleep(takes) // virtual
				return world.Status(202)
			}
		}
		w := world.New(t, world.Options{Now: time.Now, Protocol: world.SenderFunc(slow), Table: func(tbl table.Table) table.Table {
			return metered{tbl, &writes}
		}})
		to := make([]string, n)
		for i := range to {
			to[i] = fmt.Sprintf("https://h%d.example/users/%x/inbox", i, i*104729)
		}
		id := w.Send(w.Activity("Create"), to...)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for w.Poll(queue.Normal) > 0 {
				}
			})
			time.Sleep(10 * time.Millisecond) // virtual: the first expands
		}
		wg.Wait()
		for w.Poll(queue.Normal) > 0 {
		}
		for inbox, r := range w.States(id) {
			if r.State != activity.Delivered {
				t.Fatalf("%s is %q", inbox, r.State)
			}
		}
		units := writes.Load() + 1 // the caller's own record
		t.Logf("%.3f write units per recipient", float64(units)/n)
		if model := (cost.Load{Recipients: n, Slow: 0.1, Memory: 512}).PerActivity().Writes; math.Abs(float64(units)-model) > n/50 {
			t.Errorf("%d write units for %d recipients, the model of costs has %.0f", units, n, model)
		}
		if units > n/10 {
			t.Errorf("%d write units for %d recipients, at most %d", units, n, n/10)
		}
	})
}
