package deliver_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/message"
	"fedpost/internal/testkit/long"
	"fedpost/internal/testkit/world"
)

// TestASmallActivityDoesNotWaitForLargeOnesBeforeIt: large fan-outs take turns.
// Two of 7,500 recipients each are before it, and it waits for a turn of each
// (5,000 recipients) at most, and for the batch that it is received in.
func TestASmallActivityDoesNotWaitForLargeOnesBeforeIt(t *testing.T) {
	onBothTypes(t, func(t *testing.T, typ queue.Type) {
		// A FIFO queue hands out groups by the time at which they became free, so time goes on.
		var ticks atomic.Int64
		now := func() time.Time { return world.Start.Add(time.Duration(ticks.Add(1)) * time.Millisecond) }
		w := world.New(t, world.Options{QueueType: typ, Now: now})
		to := inboxes(7_500)
		large := []activity.ID{w.Send(w.Activity("Create"), to...), w.Send(w.Activity("Create"), to...)}
		w.Poll(queue.Normal) // both are expanded for the first time
		small := w.Send(w.Activity("Create"), inboxes(1)...)
		w.Work()
		at := slices.IndexFunc(w.Servers.Got(), func(r world.Request) bool { return r.Activity.ID == small })
		if at < 0 || at > 5_000+10*50 {
			t.Errorf("%d requests were made before the small activity's", at)
		}
		for _, id := range large {
			expectOnce(t, w, id, to)
		}
		w.Quiet()
	})
}

// TestTheRestOfALargeMessageGoesByClaimCheck, whatever the message was.
func TestTheRestOfALargeMessageGoesByClaimCheck(t *testing.T) {
	t.Parallel()
	onBothTypes(t, func(t *testing.T, typ queue.Type) {
		to := inboxes(9_000)
		for name, parts := range map[string]int{"fan-out": 1, "batch": 3} {
			for _, cursor := range []int{0, 3} {
				t.Run(fmt.Sprint(name, cursor), func(t *testing.T) {
					if cursor == 0 || name == "fan-out" {
						long.Only(t, "a batch that goes on later shows the same")
					}
					w := world.New(t, world.Options{QueueType: typ})
					var m message.Message
					var as []activity.Activity
					for n := range parts {
						a := w.Activity("Create")
						as = append(as, a)
						part := message.Message{Version: message.Version, Activity: &a, FanOut: &message.FanOut{Targets: targets(to)}}
						if n == 0 {
							part.FanOut.Cursor = cursor
						}
						if n == 1 {
							part = message.Message{Version: message.Version, Activity: &a, Deliver: &message.Delivery{Position: message.Whole, Targets: targets(to[:3])}}
						}
						m.Batch = append(m.Batch, part)
					}
					if parts == 1 {
						m = m.Batch[0]
					}
					put(t, w, queue.Normal, m)
					for range 20 {
						w.Poll(queue.Normal)
						got, err := w.Engine.Queue(queue.Normal).Receive(t.Context(), queue.ReceiveOptions{Max: 10, Visibility: time.Second})
						if err != nil {
							t.Fatal(err)
						}
						for _, r := range got {
							if len(r.Body) > 64<<10 {
								t.Fatalf("%d bytes travel on", len(r.Body))
							}
						}
						w.Clock.Advance(2 * time.Second)
					}
					w.Work()
					expectOnce(t, w, as[0].ID, to[cursor*50:])
					for n, a := range as[1:] {
						expectOnce(t, w, a.ID, to[:map[int]int{0: 3, 1: len(to)}[n]])
					}
					w.Quiet()
				})
			}
		}
	})
}
