package enqueue_test

import (
	"testing"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/enqueue"
	"fedpost/internal/testkit/faults"
)

// TestWhatIsReleasedIsNoDuplicateOfWhatWasSent was found by the simulation: while the agenda could
// not be written, an ordered activity with a short delay went to its queue at once, for a worker to
// put it off. Another call with its key then put it into the agenda. Within five minutes the queue
// dropped the released message as a duplicate of the first.
func TestWhatIsReleasedIsNoDuplicateOfWhatWasSent(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	id := w.must(request(ordered("g"), delay(time.Minute)), enqueue.Queued)
	sent := queue.Message{Body: `{"v":1}`, OrderingKey: "g", DeduplicationKey: string(id)}
	if err := w.engine.Queue(queue.Ordered).Send(t.Context(), sent); err != nil {
		t.Fatal(err)
	}
	got, err := w.engine.Queue(queue.Ordered).Receive(t.Context(), queue.ReceiveOptions{Max: 10})
	if err != nil || len(got) != 1 {
		t.Fatalf("%d received, %v", len(got), err)
	}
	if err := w.engine.Queue(queue.Ordered).Delete(t.Context(), got[0].Handle); err != nil {
		t.Fatal(err)
	}
	w.wait(2 * time.Minute)
	w.releaseAll()
	if all := w.arrived(); len(all) != 1 || all[0].Message.Activity.ID != id {
		t.Errorf("%d arrived", len(all))
	}
}
