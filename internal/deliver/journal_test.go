package deliver_test

import (
	"errors"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/ledger"
	"fedpost/internal/testkit/engines"
	"fedpost/internal/testkit/faults"
	"fedpost/internal/testkit/world"
)

// Found by the simulation: a chunk whose failed target could not be split off was
// taken up again when that target's server was down. It was parked, which is done
// without a claim, so what the journal had of the others was never recorded, and two
// weeks later their inboxes were queued for ever.
func TestAJournalIsKeptAsLongAsTheActivity(t *testing.T) {
	refusing := false
	plan := faults.NewPlan()
	w := world.New(t, world.Options{Plan: plan, Engine: engines.Embedded()})
	w.Servers.Spare()
	w.Servers.Script("down.example", func(world.Request, int) outcome.Outcome {
		if !refusing {
			refusing = true
			plan.FailNext("SendBatch")
		}
		return world.Down(world.Request{}, 0)
	})
	id := w.Send(w.Activity("Create"), "https://fine.example/inbox", "https://down.example/inbox")
	w.Work()
	for range 6 {
		w.Send(w.Activity("Create"), "https://down.example/inbox")
	}
	w.Run(20*24*time.Hour, time.Minute)
	if err := w.Engine.(engines.File).Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Expect(id, map[string]activity.State{"https://fine.example/inbox": activity.Delivered})
}

// A worker writes a refusal to its journal and dies before it keeps the activity for a retry. The next
// worker has nothing to send and claims nothing, but it has the activity.
func TestWhatRefusedIsKeptForARetryAlsoIfOnlyAJournalHasIt(t *testing.T) {
	broken := false
	plan := faults.NewPlan()
	w := world.New(t, world.Options{Plan: plan})
	w.Servers.Spare()
	w.Servers.Script("refuses.example", world.Answers(404))
	w.Servers.Script("down.example", func(world.Request, int) outcome.Outcome {
		if !broken {
			broken = true
			plan.FailNext("SendBatch")
			plan.FailNext("PutAll")
		}
		return world.Down(world.Request{}, 0)
	})
	id := w.Send(w.Activity("Create"), "https://refuses.example/inbox", "https://down.example/inbox")
	w.Work()
	if _, err := w.Store.Content(t.Context(), id); !errors.Is(err, ledger.ErrNoContent) {
		t.Fatalf("the fault has not kept the activity from being kept: %v", err)
	}
	for range 6 {
		w.Send(w.Activity("Create"), "https://down.example/inbox")
	}
	w.Run(time.Hour, time.Minute)
	if a, err := w.Store.Content(t.Context(), id); err != nil || a.ID != id {
		t.Errorf("kept %+v, %v", a, err)
	}
}
