package deliver_test

import (
	"fmt"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/message"
	"fedpost/internal/testkit/world"
)

// TestADelayedDeliveryHasItsGiveUpTimeThoughItsRecordIsForgotten: with RECORD_RETENTION=1d
// the record of what was due 20 days after its call was gone when its server, which an
// operator had paused for five days, was released, and it was given up as 25 days old.
func TestADelayedDeliveryHasItsGiveUpTimeThoughItsRecordIsForgotten(t *testing.T) {
	const day = 24 * time.Hour
	to := []activity.Target{{Inbox: "https://a.example/inbox", Stands: 1}}
	for waited, want := range map[time.Duration]int{5 * day: 1, 8 * day: 0} {
		for _, m := range []message.Message{
			{Deliver: &message.Delivery{Position: message.Whole, Targets: to}},
			{FanOut: &message.FanOut{Targets: to}},
		} {
			t.Run(fmt.Sprint(waited, m.FanOut != nil), func(t *testing.T) {
				w := world.New(t, world.Options{})
				a := w.Activity("Create")
				a.DueAt = w.Now().Add(-waited)
				a.CreatedAt = a.DueAt.Add(-20 * day)
				m.Activity = &a
				// The queue delivers twice, and what became of it is still known the second time.
				for range 2 {
					put(t, w, queue.Normal, m)
					w.Run(time.Hour, time.Minute)
				}
				if n := len(w.Servers.Got()); n != want {
					t.Errorf("%d requests after %s, want %d", n, waited, want)
				}
				w.Quiet()
			})
		}
	}
}
