package deliver_test

import (
	"fmt"
	"testing"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/message"
	"fedpost/internal/message/agenda"
	"fedpost/internal/testkit/world"
)

// TestTwoDelayedRequestsUnderAKeyAreBothSent: both were accepted while the table was down, so
// both carry the id of the key, and neither task may replace the other.
func TestTwoDelayedRequestsUnderAKeyAreBothSent(t *testing.T) {
	for _, q := range []queue.Name{queue.Normal, queue.Ordered} {
		for _, batch := range []bool{false, true} {
			t.Run(fmt.Sprint(q, batch), func(t *testing.T) {
				w := world.New(t, world.Options{QueueType: queue.FIFO})
				a, due := w.Activity("Create"), w.Now().Add(time.Hour)
				if q.Ordered() {
					a.OrderingKey = "k"
				}
				all := inboxes(4)
				for i, fp := range []string{"one", "two"} {
					m := message.Message{
						Activity: &a, FanOut: &message.FanOut{Targets: targets(all[2*i : 2*i+2])}, NotBefore: due,
						Unrecorded: &message.Unrecorded{Fingerprint: fp, DueAt: due, Forget: due.Add(time.Hour)},
					}
					if batch {
						m.NotBefore = time.Time{}
						m = message.Message{Batch: []message.Message{m}, NotBefore: due}
					}
					put(t, w, q, m)
				}
				w.Work()
				release := agenda.Releaser{Store: w.Store, Queues: map[queue.Name]queue.Sender{q: w.Engine.Queue(q)}, Log: w.Config().Log}
				w.Clock.Advance(time.Hour)
				if _, err := release.Release(t.Context(), w.Now()); err != nil {
					t.Fatal(err)
				}
				w.Run(time.Minute, time.Second)
				got := map[string]int{}
				for _, r := range w.Servers.Got() {
					got[fmt.Sprintf("%+v", r)]++
				}
				if len(w.Servers.Got()) != 4 {
					t.Errorf("%d requests of 4: %v", len(w.Servers.Got()), got)
				}
				w.Quiet()
			})
		}
	}
}
