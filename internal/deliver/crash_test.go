package deliver_test

import (
	"sync/atomic"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/deliver"
	"fedpost/internal/testkit/engines"
	"fedpost/internal/testkit/faults"
	"fedpost/internal/testkit/long"
	"fedpost/internal/testkit/world"
)

// sweep breaks every call of a scenario, on every engine, and then holds what
// servers accepted twice against the gap between an answer and its record.
func sweep(t *testing.T, run func(t *testing.T, o world.Options) *world.World) {
	sweepOn(t, engines.Sweep, run)
}

// sweepOrdered is sweep for a scenario on the ordered queue alone.
func sweepOrdered(t *testing.T, run func(t *testing.T, o world.Options) *world.World) {
	sweepOn(t, engines.SweepOrdered, run)
}

func sweepOn(t *testing.T, sweep func(*testing.T, func(*testing.T, engines.Engine, *faults.Plan)), run func(t *testing.T, o world.Options) *world.World) {
	long.NotUnderRace(t)
	t.Parallel()
	var doubles atomic.Int64
	t.Cleanup(func() {
		t.Logf("%d requests were sent twice, each in the gap between an answer and its record", doubles.Load())
	})
	sweep(t, func(t *testing.T, e engines.Engine, p *faults.Plan) {
		w := run(t, world.Options{Engine: e, Plan: p})
		doubles.Add(int64(w.Doubles()))
		w.Quiet()
	})
}

func TestAnItemIsDoneOnlyAfterItWasProcessedWhateverCallFails(t *testing.T) {
	sweep(t, func(t *testing.T, o world.Options) *world.World {
		w := world.New(t, o)
		w.Servers.Script("stumbles.example", world.Then(2, world.Answers(500), nil))
		w.Servers.Script("refuses.example", world.Answers(404))
		id := w.Send(w.Activity("Create"), "https://fine.example/1", "https://stumbles.example/1", "https://refuses.example/1", "https://fine.example/2")
		w.Run(30*time.Minute, 5*time.Second)
		w.Expect(id, map[string]activity.State{
			"https://fine.example/1": activity.Delivered, "https://fine.example/2": activity.Delivered,
			"https://stumbles.example/1": activity.Delivered, "https://refuses.example/1": activity.Failed,
		})
		return w
	})
}

// oneByOne makes a world that does one thing at a time, and so the same in every
// run of a sweep.
func oneByOne(t *testing.T, o world.Options) *world.World {
	o.Limits = deliver.Limits{Messages: 1, InFlight: 1}
	w := world.New(t, o)
	w.BatchSize = 1
	return w
}

func TestNothingIsLostWhateverCallFailsInAnOutage(t *testing.T) {
	sweep(t, func(t *testing.T, o world.Options) *world.World {
		w := oneByOne(t, o)
		back := world.Start.Add(12 * time.Minute)
		w.Servers.Script("down.example", func(r world.Request, n int) outcome.Outcome {
			if r.At.Before(back) {
				return world.Down(r, n)
			}
			return world.Status(202)
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
		return w
	})
}

func TestNothingIsLostNorReorderedWhateverCallFailsInAnOutage(t *testing.T) {
	sweepOrdered(t, func(t *testing.T, o world.Options) *world.World {
		w := oneByOne(t, o)
		back := world.Start.Add(12 * time.Minute)
		w.Servers.Script("down.example", func(r world.Request, n int) outcome.Outcome {
			if r.At.Before(back) {
				return world.Down(r, n)
			}
			return world.Status(202)
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
		return w
	})
}

func TestNothingIsLostNorReorderedWhateverCallFailsWhileAnInboxLeavesTheLineOfItsHost(t *testing.T) {
	const good, bad = "https://mixed.example/good", "https://mixed.example/bad"
	sweepOrdered(t, func(t *testing.T, o world.Options) *world.World {
		w := oneByOne(t, o)
		back := world.Start.Add(20 * time.Minute)
		w.Servers.Script(bad, func(r world.Request, _ int) outcome.Outcome {
			if r.At.Before(back) {
				return world.Status(500)
			}
			return world.Status(202)
		})
		l := line{key: "note"}
		for _, to := range [][]string{{bad}, {good}, {bad, good}, {good}} {
			a := w.Activity("Update")
			a.OrderingKey = l.key
			l.ids = append(l.ids, w.Send(a, to...))
			w.Send(w.Activity("Create"), good) // the host works
			w.Run(3*time.Minute, 10*time.Second)
		}
		w.Run(26*time.Hour, 2*time.Minute)
		for i, inbox := range []string{bad, good, bad, good} {
			w.Expect(l.ids[i], map[string]activity.State{inbox: activity.Delivered})
		}
		inOrder(t, w, []line{l})
		return w
	})
}

func TestNothingIsLostWhateverCallFailsWhileExpanding(t *testing.T) {
	sweep(t, func(t *testing.T, o world.Options) *world.World {
		w := world.New(t, o)
		w.Servers.Spare() // the sweep over a chunk breaks requests
		to := inboxes(120)
		id := w.Send(w.Activity("Create"), to...)
		w.Run(30*time.Minute, time.Minute)
		want := map[string]activity.State{}
		for _, in := range to {
			want[in] = activity.Delivered
		}
		w.Expect(id, want)
		return w
	})
}
