package deliver_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/deliver"
	"fedpost/internal/deliver/bodies"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/message"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/world"
)

// largeActivity has a body of so many bytes, which deflates to about half.
func largeActivity(w *world.World, size int) activity.Activity {
	a := w.Activity("Create")
	var b strings.Builder
	for n := uint32(1); b.Len() < size; n = n*1664525 + 1013904223 {
		fmt.Fprintf(&b, "%x", n)
	}
	a.Body = `{"type":"Create","content":"` + b.String() + `"}`
	return a
}

// all returns the bodies of the messages that can be received from a queue.
func all(t *testing.T, w *world.World, name queue.Name) (bodies []string) {
	t.Helper()
	for {
		got, err := w.Engine.Queue(name).Receive(t.Context(), queue.ReceiveOptions{Max: 10})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 {
			return bodies
		}
		for _, m := range got {
			bodies = append(bodies, m.Body)
		}
	}
}

// expectBody holds every request against the body that was submitted.
func expectBody(t *testing.T, w *world.World, a activity.Activity) {
	t.Helper()
	for _, r := range w.Servers.Got() {
		if r.Activity.ID == a.ID && r.Activity.Body != a.Body {
			t.Fatalf("%s got a body of %d bytes, not the one of %d", r.Inbox, len(r.Activity.Body), len(a.Body))
		}
	}
}

// TestALargeBodyIsStoredOnceForManyMessages: 256 KiB to 2,000 recipients in order were
// 524 MB in the file of the embedded engine.
func TestALargeBodyIsStoredOnceForManyMessages(t *testing.T) {
	const size = 64 << 10
	for name, c := range map[string]struct {
		queue          queue.Name
		size, to, most int // bytes of a message
	}{
		"in order":            {queue.Ordered, size, 40, 1000},
		"fan-out":             {queue.Normal, size, 1000, 4000},
		"few in order":        {queue.Ordered, size, 19, 2 * size},
		"small body in order": {queue.Ordered, bodies.Large / 2, 40, bodies.Large},
	} {
		t.Run(name, func(t *testing.T) {
			var writes atomic.Int64
			w := world.New(t, world.Options{Table: func(tbl table.Table) table.Table { return metered{tbl, &writes} }})
			a := largeActivity(w, c.size)
			if c.queue.Ordered() {
				a.OrderingKey = "k"
			}
			w.Send(a, inboxes(c.to)...)
			w.Poll(c.queue)
			stored := writes.Load() - int64(c.to) // a list for each in order
			bodies, carry := all(t, w, c.queue), 0
			for _, b := range bodies {
				if len(b) > c.most {
					t.Fatalf("a message of %d bytes, at most %d", len(b), c.most)
				}
				if m, err := message.Decode(b); err != nil || m.Deliver == nil {
					t.Fatalf("decoding fails with %v or gives %+v, want a delivery", err, m)
				} else if m.Activity.Body == a.Body {
					carry++
				}
			}
			if once := c.most < c.size; once == (carry > 0) {
				t.Errorf("%d of %d messages carry the body", carry, len(bodies))
			} else if once && stored > size>>10 {
				t.Errorf("%d units were written to store %d bytes once", stored, size)
			} else if !once && stored > 0 {
				t.Errorf("%d units were written beside the lists", stored)
			}
			w.Clock.Advance(time.Hour) // what all has received comes back
			w.Restart()                // with nothing in memory
			w.Run(time.Hour, time.Minute)
			expectOnce(t, w, a.ID, inboxes(c.to))
			expectBody(t, w, a)
			w.Quiet()
		})
	}
}

// TestRetriesAndSpotsCarryNoLargeBody: each recipient that failed had a copy
// of the body in its message, then in its spot.
func TestRetriesAndSpotsCarryNoLargeBody(t *testing.T) {
	w := world.New(t, world.Options{})
	to := inboxes(30)
	for i := range to {
		w.Servers.Script(fmt.Sprintf("h%d.example", i), world.Down)
	}
	a := largeActivity(w, 64<<10)
	w.Send(a, to...)
	w.Poll(queue.Normal)
	w.Clock.Advance(10 * time.Second)
	bodies := all(t, w, queue.Normal)
	for _, b := range bodies {
		if len(b) > 1000 {
			t.Fatalf("a retry of %d bytes", len(b))
		}
	}
	if len(bodies) != len(to) {
		t.Fatalf("%d retries", len(bodies))
	}
	w.Run(10*time.Minute, 10*time.Second)
	for i := range to {
		key, spots := circuit.HostKey(fmt.Sprintf("h%d.example", i)), 0
		for shard := range 16 {
			items, _, err := w.Engine.Table().Query(t.Context(), table.Range{PK: fmt.Sprintf("P#%s#%d", key, shard)})
			if err != nil {
				t.Fatal(err)
			}
			for _, it := range items {
				if spots++; it.Size() > 1<<10 {
					t.Fatalf("a spot of %d bytes", it.Size())
				}
			}
		}
		if spots != 1 {
			t.Fatalf("%d spots under %s", spots, key)
		}
		w.Servers.Script(fmt.Sprintf("h%d.example", i), nil)
	}
	w.Restart()
	w.Run(26*time.Hour, time.Minute)
	expectOnce(t, w, a.ID, to)
	expectBody(t, w, a)
	w.Quiet()
}

func expandLarge(t *testing.T, w *world.World) (activity.Activity, []string) {
	t.Helper()
	a, to := largeActivity(w, bodies.Large), inboxes(1000)
	w.Send(a, to...)
	w.Poll(queue.Normal)
	w.Restart()
	return a, to
}

func TestAStoredBodyThatIsGoneGoesToTheDeadLettersAndHoldsUpNoOther(t *testing.T) {
	w := world.New(t, world.Options{})
	a, to := expandLarge(t, w)
	other := w.Activity("Create")
	w.Send(other, to[0])
	if err := w.Engine.Table().Delete(t.Context(), table.Key{PK: "A#" + string(a.ID), SK: "BODY#0000"}, table.Cond{}); err != nil {
		t.Fatal(err)
	}
	w.Run(10*time.Minute, time.Minute)
	expectOnce(t, w, other.ID, to[:1])
	want := make(map[string]activity.State)
	for _, in := range to {
		want[in] = activity.Dead
	}
	w.Expect(a.ID, want)
	if n := len(w.Servers.Got()); n != 1 {
		t.Errorf("%d requests, one of them for the other activity", n)
	}
	if ds := w.DeadLetters.Deaths; len(ds) != len(to) || ds[0].Reason != "payload" {
		t.Errorf("%d dead letters", len(ds))
	}
	w.Quiet()
}

func TestAStoredBodyThatWasForgottenIsNotMissed(t *testing.T) {
	w := world.New(t, world.Options{})
	a, _ := expandLarge(t, w)
	for _, f := range []func() error{
		func() error { return w.Raw().CancelActivity(t.Context(), a.ID) },
		func() error { return w.Raw().ForgetActivity(t.Context(), a.ID) },
	} {
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := w.Engine.Table().Get(t.Context(), table.Key{PK: "A#" + string(a.ID), SK: "BODY#0000"}); err != nil || len(got) > 0 {
		t.Errorf("the body is still there: %d, %v", len(got), err)
	}
	w.Run(10*time.Minute, time.Minute)
	if n, ds := len(w.Servers.Got()), len(w.DeadLetters.Deaths); n > 0 || ds > 0 {
		t.Errorf("%d requests and %d dead letters of what was forgotten", n, ds)
	}
	w.Quiet()
}

// TestNothingIsLostWhateverCallFailsWhileABodyIsStoredOnce: the body is stored before a
// message, a spot or a dead letter refers to it, and no process that dies takes it along.
func TestNothingIsLostWhateverCallFailsWhileABodyIsStoredOnce(t *testing.T) {
	sweep(t, func(t *testing.T, o world.Options) *world.World { return storedOnce(t, o, "") })
}

func TestNothingIsLostWhateverCallFailsWhileABodyInOrderIsStoredOnce(t *testing.T) {
	sweepOrdered(t, func(t *testing.T, o world.Options) *world.World { return storedOnce(t, o, "k") })
}

// storedOnce sends an activity whose body is stored once to two recipients, of which one
// stumbles and one is down for a while.
func storedOnce(t *testing.T, o world.Options, key string) *world.World {
	o.Limits = deliver.Limits{Messages: 1, InFlight: 1, Copies: 1}
	w := world.New(t, o)
	w.BatchSize = 1
	w.Servers.Spare()
	w.Servers.Script("h0.example", world.Then(2, world.Answers(500), nil))
	w.Servers.Script("h1.example", func(r world.Request, n int) outcome.Outcome {
		if r.At.Before(world.Start.Add(12 * time.Minute)) {
			return world.Down(r, n)
		}
		return world.Status(202)
	})
	a, to := largeActivity(w, bodies.Large), inboxes(2)
	a.OrderingKey = key
	w.Send(a, to...)
	w.Poll(message.QueueOf(a))
	w.Restart() // so that the body is read
	w.Run(26*time.Hour, time.Minute)
	for _, in := range to {
		w.Expect(a.ID, map[string]activity.State{in: activity.Delivered})
	}
	expectBody(t, w, a)
	return w
}
