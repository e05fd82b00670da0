package deliver_test

import (
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/testkit/world"
)

// TestAnActivityThatRevertsOneUnderWayIsSent: an inbox has "A". While "B" is under way to it, on a
// slow answer, "A" is sent again. It repeats what was delivered last, and still has to be sent:
// without it the inbox ends with "B".
func TestAnActivityThatRevertsOneUnderWayIsSent(t *testing.T) {
	w := world.New(t, world.Options{})
	const inbox = "https://slow.example/inbox"
	w.Send(about(w, "Update", "A"), inbox)
	w.Run(time.Minute, time.Second)
	var back activity.ID
	w.Servers.Script("slow.example", func(r world.Request, _ int) outcome.Outcome {
		if back == "" { // B is being sent: A comes, and another worker takes it up meanwhile
			w.Clock.Advance(time.Second)
			a := about(w, "Update", "A")
			back = a.ID
			w.Send(a, inbox)
			targets := []activity.Target{{Inbox: inbox, Stands: 1}}
			v, err := w.Redundancy.Needless(t.Context(), a, targets)
			if err != nil || v[0].State.Final() {
				t.Errorf("%q is needless while %q is under way: %+v, %v", "A", "B", v, err)
			}
		}
		return world.Status(202)
	})
	w.Send(about(w, "Update", "B"), inbox)
	w.Run(10*time.Minute, time.Second)
}

// TestAnActivityWaitsForOneThatAnotherProcessHasUnderWay, whether that process delivers it or
// fails.
func TestAnActivityWaitsForOneThatAnotherProcessHasUnderWay(t *testing.T) {
	const inbox = "https://slow.example/inbox"
	targets := []activity.Target{{Inbox: inbox, Stands: 1}}
	for _, ordering := range []string{"", "note 1"} {
		for _, arrives := range []bool{true, false} {
			w := world.New(t, world.Options{})
			first := w.Send(about(w, "Update", "A"), inbox)
			w.Run(time.Minute, time.Second)
			under := about(w, "Update", "B")
			if err := w.Redundancy.Accepted(t.Context(), under, targets); err != nil {
				t.Fatal(err)
			}
			w.Clock.Advance(time.Second)
			a := about(w, "Update", "A")
			a.OrderingKey = ordering
			back := w.Send(a, inbox)
			w.Run(30*time.Second, time.Second)
			if r := w.States(back)[inbox]; r.State.Final() || r.Attempts > 0 {
				t.Errorf("order %q: %+v while other news may be under way", ordering, r)
			}
			want := activity.Redundant
			if arrives {
				want = activity.Delivered
				if err := w.Redundancy.Delivered(t.Context(), under, targets); err != nil {
					t.Fatal(err)
				}
			}
			w.Run(10*time.Minute, time.Second)
			w.Expect(back, map[string]activity.State{inbox: want})
			if r := w.States(back)[inbox]; !arrives && (r.By != first || r.Attempts > 0) {
				t.Errorf("order %q: redundant by %q after %d attempts, want by %q", ordering, r.By, r.Attempts, first)
			}
			w.Quiet()
		}
	}
}
