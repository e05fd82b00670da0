package deliver_test

import (
	"sync/atomic"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/deliver"
	"fedpost/internal/deliver/delivertest"
	"fedpost/internal/faults"
	"fedpost/internal/outcome"
)

// doubles counts, over a sweep, the requests that a server had accepted already.
// They may come only from the gap between an answer and its record.
var doubles atomic.Int64

// checkOnce checks that nothing was accepted twice unless the process died or an
// answer was lost, and then only what a batch was about.
func checkOnce(t *testing.T, w *delivertest.World, p *faults.Plan, batch int) {
	t.Helper()
	twice := 0
	for _, by := range w.Servers.Accepted() {
		for _, n := range by {
			twice += n - 1
		}
	}
	doubles.Add(int64(twice))
	switch {
	case twice > 0 && p.Fired() == 0:
		t.Errorf("%d accepted twice without any fault", twice)
	case twice > batch:
		t.Errorf("%d accepted twice, but a batch is about %d", twice, batch)
	}
}

func TestB3AnItemIsDoneOnlyAfterItWasProcessedWhateverCallFails(t *testing.T) {
	sequential(t)
	doubles.Store(0)
	faults.Sweep(t, func(t *testing.T, p *faults.Plan) {
		w := delivertest.New(t, delivertest.Options{Plan: p})
		w.Servers.Script("stumbles.example", delivertest.Then(2, delivertest.Answers(500), nil))
		w.Servers.Script("refuses.example", delivertest.Answers(404))
		id := w.Send(w.Activity("Create"), "https://fine.example/1", "https://stumbles.example/1", "https://refuses.example/1", "https://fine.example/2")
		w.Run(30*time.Minute, 5*time.Second)
		w.Expect(id, map[string]activity.State{
			"https://fine.example/1": activity.Delivered, "https://fine.example/2": activity.Delivered,
			"https://stumbles.example/1": activity.Delivered, "https://refuses.example/1": activity.Failed,
		})
		checkOnce(t, w, p, 4)
		w.Quiet()
	})
	t.Logf("sent twice in the gap between an answer and its record: %d", doubles.Load())
}

// oneByOne makes a world that does one thing at a time, and so the same in every
// run of a sweep.
func oneByOne(t *testing.T, p *faults.Plan) *delivertest.World {
	w := delivertest.New(t, delivertest.Options{Plan: p, Limits: deliver.Limits{Messages: 1, InFlight: 1}})
	w.BatchSize = 1
	return w
}

func TestNothingIsLostWhateverCallFailsInAnOutage(t *testing.T) {
	sequential(t)
	doubles.Store(0)
	faults.Sweep(t, func(t *testing.T, p *faults.Plan) {
		w := oneByOne(t, p)
		back := delivertest.Start.Add(12 * time.Minute)
		w.Servers.Script("down.example", func(r delivertest.Request, n int) outcome.Outcome {
			if r.At.Before(back) {
				return delivertest.Down(r, n)
			}
			return delivertest.Status(202)
		})
		var ids []activity.ID
		for range 4 {
			ids = append(ids, w.Send(w.Activity("Create"), "https://down.example/inbox"))
			w.Run(90*time.Second, 10*time.Second)
		}
		w.Run(26*time.Hour, 2*time.Minute)
		for _, id := range ids {
			w.Expect(id, map[string]activity.State{"https://down.example/inbox": activity.Delivered})
		}
		checkOnce(t, w, p, len(ids))
		w.Quiet()
	})
	t.Logf("sent twice in the gap between an answer and its record: %d", doubles.Load())
}

func TestNothingIsLostNorReorderedWhateverCallFailsInAnOutage(t *testing.T) {
	sequential(t)
	doubles.Store(0)
	faults.Sweep(t, func(t *testing.T, p *faults.Plan) {
		w := oneByOne(t, p)
		back := delivertest.Start.Add(12 * time.Minute)
		w.Servers.Script("down.example", func(r delivertest.Request, n int) outcome.Outcome {
			if r.At.Before(back) {
				return delivertest.Down(r, n)
			}
			return delivertest.Status(202)
		})
		l := line{key: "note"}
		for _, typ := range []string{"Create", "Update", "Delete"} {
			a := w.Activity(typ)
			a.OrderingKey = l.key
			l.ids = append(l.ids, w.Send(a, "https://down.example/inbox"))
			w.Run(90*time.Second, 10*time.Second)
		}
		w.Run(26*time.Hour, 2*time.Minute)
		for _, id := range l.ids {
			w.Expect(id, map[string]activity.State{"https://down.example/inbox": activity.Delivered})
		}
		checkOnce(t, w, p, 1)
		w.Quiet()
	})
	t.Logf("sent twice in the gap between an answer and its record: %d", doubles.Load())
}

func TestNothingIsLostWhateverCallFailsWhileExpanding(t *testing.T) {
	sequential(t)
	doubles.Store(0)
	faults.Sweep(t, func(t *testing.T, p *faults.Plan) {
		w := delivertest.New(t, delivertest.Options{Plan: p})
		w.Servers.Spare() // the sweep over a chunk breaks requests
		to := inboxes(120)
		id := w.Send(w.Activity("Create"), to...)
		w.Run(30*time.Minute, time.Minute)
		for _, in := range to {
			w.Expect(id, map[string]activity.State{in: activity.Delivered})
		}
		checkOnce(t, w, p, len(to)) // all chunks are in one batch
		w.Quiet()
	})
	t.Logf("sent twice in the gap between an answer and its record: %d", doubles.Load())
}
