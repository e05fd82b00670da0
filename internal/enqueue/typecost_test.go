package enqueue_test

import (
	"testing"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/enqueue"
	"fedpost/internal/testkit/cost"
	"fedpost/internal/testkit/engines"
	"fedpost/internal/testkit/faults"
)

// TestCostOfACallByTypeOfQueue counts what accepting a call costs with standard queues and with
// FIFO queues, up to the agenda's release where the call goes there. docs/costs.md has the
// figures.
func TestCostOfACallByTypeOfQueue(t *testing.T) {
	type use struct{ requests, writes, reads float64 }
	named := body(`{"id":"https://social.example/activities/1","type":"Create","actor":"https://social.example/users/frida"}`)
	for _, c := range []struct {
		name           string
		request        enqueue.Request
		due            time.Duration
		standard, fifo use
	}{
		{"without a key", request(named), 0, use{1, 3, 0}, use{1, 3, 0}},
		{"with a key", request(named, key("k")), 0, use{1, 5, 0}, use{1, 3, 3}},
		{"with a key for an hour", request(named, key("k"), ttl(time.Hour)), 0, use{1, 5, 0}, use{1, 5, 2}},
		{"again with the key", request(named, key("k")), -1, use{0, 1, 0}, use{1, 2, 3}},
		{"delayed by ten minutes", request(named, delay(10*time.Minute)), 10 * time.Minute, use{1, 3, 0}, use{1, 6, 1.5}},
	} {
		for typ, want := range map[queue.Type]use{queue.Standard: c.standard, queue.FIFO: c.fifo} {
			t.Run(c.name+"/"+string(typ), func(t *testing.T) {
				e := engines.Embedded()
				e.Type = typ
				w := newWorldOn(t, e, faults.NewPlan())
				if c.due < 0 {
					w.must(c.request, enqueue.Queued)
				}
				// A release that finds nothing costs the same whatever is accepted.
				before := w.cost.Snapshot()
				if _, err := w.release.Release(t.Context(), w.now()); err != nil {
					t.Fatal(err)
				}
				idle := w.cost.Snapshot().Since(before).Service("DynamoDB").ReadUnits
				before = w.cost.Snapshot()
				status := enqueue.Queued
				if c.due < 0 {
					status = enqueue.Duplicate
				}
				w.must(c.request, status)
				if c.due > 0 {
					w.wait(c.due)
					if _, err := w.release.Release(t.Context(), w.now()); err != nil {
						t.Fatal(err)
					}
				} else {
					idle = 0
				}
				used := w.cost.Snapshot().Since(before)
				sqs, table := used.Service("SQS"), used.Service("DynamoDB")
				got := use{float64(sqs.Requests), table.WriteUnits, table.ReadUnits - idle}
				t.Logf("%+v, %s", got, cost.PriceOn(typ, used, 1))
				if got != want {
					t.Errorf("%+v, want %+v: docs/costs.md has these figures", got, want)
				}
			})
		}
	}
}
