package deliver_test

import (
	"fmt"
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

// TestALimitedHostGetsItsOrderedDeliveriesWhileTheQueueLags: each is received minutes after
// its slot, and order holds.
func TestALimitedHostGetsItsOrderedDeliveriesWhileTheQueueLags(t *testing.T) {
	const keys, each, rate = 10, 3, 10
	w := world.New(t, world.Options{})
	limitTo(t, w, "slow.example", rate)
	var ids []activity.ID
	order := map[activity.ID]int{}
	for i := range keys * each {
		a := w.Activity("Create")
		a.OrderingKey = fmt.Sprint("thread ", i%keys)
		id := w.Send(a, "https://slow.example/inbox")
		ids = append(ids, id)
		order[id] = i
	}
	for minute := range 180 {
		if minute%5 == 0 {
			w.Work()
		}
		w.Clock.Advance(time.Minute)
		if err := w.Checks.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if done := counts(w, ids)[activity.Delivered]; done < len(ids) {
		t.Errorf("%d of %d are delivered within three hours at %d a minute", done, len(ids), rate)
	}
	last := map[int]int{}
	for _, r := range w.Servers.Got() {
		n := order[r.Activity.ID]
		if before, ok := last[n%keys]; ok && n < before {
			t.Errorf("activity %d of thread %d came after %d", n/keys, n%keys, before/keys)
		}
		last[n%keys] = n
	}
}
