package deliver_test

import (
	"fmt"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/testkit/world"
)

// TestTheDoneEventIsOfTheRequestThatAskedForIt: of two requests under a key in an outage of the
// table, the second asks for activity.done.
func TestTheDoneEventIsOfTheRequestThatAskedForIt(t *testing.T) {
	for name, n := range map[string]int{"chunks": 2, "fan-outs": 120} {
		for _, q := range []queue.Name{queue.Normal, queue.Ordered} {
			for _, batch := range []bool{false, true} {
				t.Run(fmt.Sprint(name, " on ", q, ", in a batch: ", batch), func(t *testing.T) {
					w := world.New(t, world.Options{QueueType: queue.FIFO})
					a := w.Activity("Create")
					if q.Ordered() {
						a.OrderingKey = "k"
					}
					all := inboxes(2*n + 1)
					of := map[string][]string{"one": all[:n], "two": all[n:]}
					send := func(fingerprint string) {
						b := a
						b.Notify = fingerprint == "two"
						m := message.Message{Activity: &b, Unrecorded: &message.Unrecorded{
							Fingerprint: fingerprint, Forget: w.Now().Add(24 * time.Hour), Sender: "https://us.example/frida", ActivityID: "https://us.example/" + fingerprint,
						}}
						if n <= ledger.ChunkSize && !q.Ordered() {
							m.Deliver = &message.Delivery{Position: message.Whole, Targets: targets(of[fingerprint])}
						} else {
							m.FanOut = &message.FanOut{Targets: targets(of[fingerprint])}
						}
						if batch {
							m = message.Message{Batch: []message.Message{m}}
						}
						put(t, w, q, m)
					}
					send("one")
					w.Work()
					send("two")
					w.Run(2*time.Hour, time.Minute)
					second := activity.DerivedID(a.ID.Time(), string(a.ID)+"/two")
					if got := eventsOf(t, w, a.ID); len(got[""]) != 0 {
						t.Errorf("the first, which did not ask, has %v", got)
					}
					if got := eventsOf(t, w, second); len(got[""]) != 1 {
						t.Errorf("the second, which asked, has %v", got)
					}
				})
			}
		}
	}
}

// TestListsDoNotMixTwoRequestsUnderAKey: the lists name each request by what it said.
func TestListsDoNotMixTwoRequestsUnderAKey(t *testing.T) {
	w := world.New(t, world.Options{QueueType: queue.FIFO})
	a := w.Activity("Create")
	for i, fp := range []string{"one", "two"} {
		put(t, w, queue.Normal, message.Message{Activity: &a, Deliver: &message.Delivery{Position: message.Whole, Targets: targets(inboxes(4)[2*i : 2*i+2])}, Unrecorded: &message.Unrecorded{
			Fingerprint: fp, Forget: w.Now().Add(24 * time.Hour), Sender: "https://us.example/frida", ActivityID: "https://us.example/" + fp,
		}})
		w.Work()
	}
	w.Run(time.Minute, time.Second)
	for _, s := range []ledger.Sought{{ActivityID: "https://us.example/one"}, {ActivityID: "https://us.example/two"}, {Sender: "https://us.example/frida"}} {
		ls, _, err := w.Store.FindActivities(t.Context(), s, "", 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range ls {
			r, err := w.Store.Activity(t.Context(), l.ID)
			if err == nil && l.ActivityID != "https://us.example/"+r.Fingerprint {
				t.Errorf("%s is listed as %s and is %s", l.ID, l.ActivityID, r.Fingerprint)
			}
		}
	}
}
