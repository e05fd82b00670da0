package deliver_test

import (
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/testkit/world"
)

// TestALimitedHostGetsItsDeliveriesWhileTheQueueLags by more than a slot may be
// late: each delivery that is released waits for minutes to be received.
func TestALimitedHostGetsItsDeliveriesWhileTheQueueLags(t *testing.T) {
	const n, rate = 60, 10
	w := world.New(t, world.Options{})
	limitTo(t, w, "slow.example", rate)
	start := w.Now()
	var ids []activity.ID
	for range n {
		ids = append(ids, w.Send(w.Activity("Create"), "https://slow.example/inbox"))
	}
	for minute := range 60 {
		if minute%5 == 0 {
			w.Work()
		}
		w.Clock.Advance(time.Minute)
		if err := w.Checks.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if done := counts(w, ids)[activity.Delivered]; done < n {
		t.Errorf("%d of %d are delivered within an hour at %d a minute", done, n, rate)
	}
	sent := 0
	for _, r := range w.Servers.Got() {
		sent++
		// A slot may be used two minutes late, and another two minutes ahead.
		if most := rate * (r.At.Sub(start).Minutes() + 5); float64(sent) > most {
			t.Errorf("%d were sent within %s at %d a minute", sent, r.At.Sub(start), rate)
		}
	}
}
