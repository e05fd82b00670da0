package deliver_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/app/local"
	"fedpost/internal/deliver"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger/events"
	"fedpost/internal/protocol"
	"fedpost/internal/protocol/retry"
	"fedpost/internal/testkit/world"
)

// eventsOf lists the events of an activity, by inbox.
func eventsOf(t *testing.T, w *world.World, id activity.ID) map[string][]events.Kind {
	t.Helper()
	kinds := map[string][]events.Kind{}
	for cursor, more := "", true; more; {
		p, err := w.Raw().Events(context.Background(), cursor, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range p.Events {
			if e.ActivityID == id {
				kinds[e.Inbox] = append(kinds[e.Inbox], e.Kind)
			}
		}
		cursor, more = p.Next, p.More
	}
	return kinds
}

// TestEachBadEndIsOneEventWhateverCallFails, and there is no other event.
func TestEachBadEndIsOneEventWhateverCallFails(t *testing.T) {
	sweep(t, func(t *testing.T, o world.Options) *world.World {
		o.Policy = retry.ActivityPub()
		o.Policy.GiveUp = 20 * time.Minute
		w := oneByOne(t, o)
		w.Servers.Script("gone.example", world.Answers(410))
		w.Servers.Script("refuses.example", world.Answers(403))
		w.Servers.Script("down.example", world.Down)
		id := w.Send(w.Activity("Create"), "https://fine.example/1", "https://gone.example/1", "https://refuses.example/1", "https://down.example/1")
		w.Run(26*time.Hour, 5*time.Minute)
		w.Expect(id, map[string]activity.State{
			"https://fine.example/1": activity.Delivered, "https://gone.example/1": activity.Failed,
			"https://refuses.example/1": activity.Failed, "https://down.example/1": activity.Dead,
		})
		got := eventsOf(t, w, id)
		want := map[string]events.Kind{
			"https://gone.example/1": events.RecipientGone, "https://refuses.example/1": events.RecipientFailed, "https://down.example/1": events.RecipientDead,
		}
		for inbox, kind := range want {
			if ks := got[inbox]; len(ks) != 1 || ks[0] != kind {
				t.Errorf("%s: %v, want one %s", inbox, ks, kind)
			}
		}
		if len(got) != len(want) {
			t.Errorf("events of %d inboxes, want %d", len(got), len(want))
		}
		return w
	})
}

// TestManyThatFailAtTheSameInstantHaveOneEventEach: in up hundreds of invocations then number
// events at once.
func TestManyThatFailAtTheSameInstantHaveOneEventEach(t *testing.T) {
	const failing = 600
	synctest.Test(t, func(t *testing.T) {
		refuse := world.SenderFunc(func(context.Context, activity.Activity) protocol.Attempt {
			return func(context.Context, activity.Target, int) outcome.Outcome {
				time.Sleep(time.Second) // virtual
				return world.Status(403)
			}
		})
		w := world.New(t, world.Options{Now: time.Now, Protocol: refuse, Limits: deliver.Limits{
			PerQueue: local.PerQueue,
		}})
		var ids []activity.ID
		for i := range failing {
			ids = append(ids, w.Send(w.Activity("Create"), fmt.Sprintf("https://h%d.example/inbox", i)))
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		m := w.Mapping(queue.Normal)
		wg.Go(func() { m.Run(ctx) })
		time.Sleep(10 * time.Second) // virtual
		cancel()
		wg.Wait()
		times := map[activity.ID]int{}
		for cursor, more := "", true; more; {
			p, err := w.Raw().Events(context.Background(), cursor, 100)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range p.Events {
				if e.Kind == events.RecipientFailed {
					times[e.ActivityID]++
				}
			}
			cursor, more = p.Next, p.More
		}
		for _, id := range ids {
			if times[id] != 1 {
				t.Errorf("%s was told %d times", id, times[id])
			}
		}
		if d, err := w.Engine.Queue(queue.Normal).Depth(context.Background()); err != nil || d != (queue.Depth{}) {
			t.Errorf("the queue still has %+v, %v", d, err)
		}
	})
}

// deaf is an event log that fails.
type deaf struct {
	deliver.EventLog
	times int
}

var errDeaf = errors.New("cannot be written")

func (d *deaf) AppendEnds(ctx context.Context, ends []events.End) error {
	if d.times--; d.times >= 0 {
		return errDeaf
	}
	return d.EventLog.AppendEnds(ctx, ends)
}

// TestAMessageWhoseEventsCannotBeWrittenComesBack until they are written, and nothing is sent again.
func TestAMessageWhoseEventsCannotBeWrittenComesBack(t *testing.T) {
	w := world.New(t, world.Options{})
	c := w.Config()
	c.Events = &deaf{c.Events, 3 * 12} // each call is made three times
	w.Deliver = deliver.New(c)
	w.Servers.Script("gone.example", world.Answers(404))
	var to []string
	for i := range 60 { // of two chunks
		to = append(to, fmt.Sprintf("https://gone.example/%d", i))
	}
	id := w.Send(w.Activity("Create"), to...)
	w.Run(2*time.Hour, 20*time.Second)
	got := eventsOf(t, w, id)
	for _, inbox := range to {
		if ks := got[inbox]; len(ks) != 1 || ks[0] != events.RecipientGone {
			t.Fatalf("%s: %v", inbox, ks)
		}
	}
	w.Quiet()
	if n := w.Doubles(); n != 0 {
		t.Errorf("%d requests were sent twice", n)
	}
}

func TestAServersOutageIsAnEvent(t *testing.T) {
	w := world.New(t, world.Options{})
	back := world.Start.Add(3 * time.Hour)
	w.Servers.Script("down.example", func(r world.Request, n int) outcome.Outcome {
		if r.At.Before(back) {
			return world.Down(r, n)
		}
		return world.Status(202)
	})
	for range 3 {
		w.Send(w.Activity("Create"), "https://down.example/inbox")
	}
	w.Run(27*time.Hour, time.Minute)
	var kinds []events.Kind
	p, err := w.Raw().Events(t.Context(), "", 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range p.Events {
		if e.Host == "down.example" {
			kinds = append(kinds, e.Kind)
		}
	}
	if len(kinds) != 2 || kinds[0] != events.ServerUnhealthy || kinds[1] != events.ServerRecovered {
		t.Errorf("events %v, want the server unhealthy, then recovered", kinds)
	}
}

// TestDeliveriesOfAQuietProtocolMakeNoEvents: webhooks' own would go on for ever.
func TestDeliveriesOfAQuietProtocolMakeNoEvents(t *testing.T) {
	w := world.New(t, world.Options{})
	c := w.Config()
	c.Protocols[0].Delivery.Quiet = true
	w.Deliver = deliver.New(c)
	w.Servers.Script("gone.example", world.Answers(410))
	id := w.Send(w.Activity("Create"), "https://gone.example/1")
	w.Run(time.Minute, time.Second)
	w.Expect(id, map[string]activity.State{"https://gone.example/1": activity.Failed})
	if got := eventsOf(t, w, id); len(got) != 0 {
		t.Errorf("events %v, want none", got)
	}
}

// TestAnActivityThatAsksForItHasOneDoneEventWhateverCallFails, and never before its last
// recipient has come to its end.
func TestAnActivityThatAsksForItHasOneDoneEventWhateverCallFails(t *testing.T) {
	sweep(t, func(t *testing.T, o world.Options) *world.World {
		o.Policy = retry.ActivityPub()
		o.Policy.GiveUp = 20 * time.Minute
		w := oneByOne(t, o)
		w.Servers.Script("gone.example", world.Answers(410))
		w.Servers.Script("stumbles.example", world.Then(1, world.Answers(500), nil))
		a := w.Activity("Create")
		a.Notify = true
		id := w.Send(a, "https://fine.example/1", "https://gone.example/1", "https://stumbles.example/1")
		w.Run(3*time.Hour, time.Minute)
		checkDone(t, w, id, "1 failed, 2 delivered")
		return w
	})
}

// checkDone checks that an activity has one done event, its last.
func checkDone(t *testing.T, w *world.World, id activity.ID, reason string) {
	t.Helper()
	var all []events.Event
	for cursor, more := "", true; more; {
		p, err := w.Raw().Events(context.Background(), cursor, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range p.Events {
			if e.ActivityID == id {
				all = append(all, e)
			}
		}
		cursor, more = p.Next, p.More
	}
	n := 0
	for _, e := range all {
		if e.Kind == events.ActivityDone {
			n++
			if e.Reason != reason {
				t.Errorf("told %q, want %q", e.Reason, reason)
			}
		}
	}
	if n != 1 {
		t.Errorf("told done %d times in %d events", n, len(all))
	}
}

func TestTheScheduleWritesTheDoneEventOfALargeActivity(t *testing.T) {
	w := world.New(t, world.Options{})
	var to []string
	for i := range 120 { // of three chunks
		to = append(to, fmt.Sprintf("https://host%d.example/inbox", i))
	}
	w.Servers.Script("host7.example", world.Down)
	a, quiet := w.Activity("Create"), w.Activity("Create")
	a.Notify = true
	id := w.Send(a, to...)
	other := w.Send(quiet, to[:3]...)
	w.Run(24*time.Hour, 5*time.Minute)
	if got := eventsOf(t, w, id); len(got) != 0 {
		t.Errorf("told %v while one recipient waits", got)
	}
	w.Run(9*24*time.Hour, time.Hour)
	checkDone(t, w, id, "1 dead, 119 delivered")
	if got := eventsOf(t, w, other); len(got) != 0 {
		t.Errorf("told %v of one that did not ask", got)
	}
}

// TestALargeActivityHasItsDoneEventSoonAfterItsLastRecipient, in a process that lives on: of 201
// ordered inboxes, which are messages of their own, and of several chunks. The schedule does
// not run in this test.
func TestALargeActivityHasItsDoneEventSoonAfterItsLastRecipient(t *testing.T) {
	for _, name := range []queue.Name{queue.Normal, queue.Ordered} {
		t.Run(string(name), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := world.New(t, world.Options{Now: time.Now, Limits: deliver.Limits{PerQueue: local.PerQueue, Quiet: time.Second}})
				a := w.Activity("Create")
				a.Notify = true
				if name == queue.Ordered {
					a.OrderingKey = "key"
				}
				var to []string
				for i := range 201 {
					to = append(to, fmt.Sprintf("https://host%d.example/inbox", i))
				}
				id := w.Send(a, to...)
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				m := w.Mapping(name)
				wg.Go(func() { m.Run(ctx) })
				began := time.Now()
				for len(eventsOf(t, w, id)) == 0 && time.Since(began) < time.Minute {
					time.Sleep(100 * time.Millisecond) // virtual
				}
				cancel()
				wg.Wait()
				checkDone(t, w, id, "201 delivered")
				if took := time.Since(began); took > 3*time.Second {
					t.Errorf("told %s after the activity was sent, want 2 s after its last recipient", took)
				}
			})
		})
	}
}

func TestACancelledActivityHasADoneEvent(t *testing.T) {
	w := world.New(t, world.Options{})
	w.Servers.Script("down.example", world.Down)
	a := w.Activity("Create")
	a.Notify = true
	id := w.Send(a, "https://fine.example/1", "https://down.example/1")
	w.Run(10*time.Minute, time.Minute)
	if err := w.Raw().CancelActivity(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	w.Run(time.Hour, time.Minute)
	checkDone(t, w, id, "1 cancelled, 1 delivered")
}

// TestAnEndThatOnlyAJournalHasIsAnEventThoughItsActivityExpires. Found by the simulation: the
// message came back after its activity's expiry and before the claim of the worker that had
// died, and was acknowledged before anybody had read the journal.
func TestAnEndThatOnlyAJournalHasIsAnEventThoughItsActivityExpires(t *testing.T) {
	sweep(t, func(t *testing.T, o world.Options) *world.World {
		w := oneByOne(t, o)
		const inbox = "https://gone.example/1"
		w.Servers.Script("gone.example", world.Answers(410))
		a := w.Activity("Create")
		a.ExpiresAt = world.Start.Add(20 * time.Second)
		id := w.Send(a, inbox)
		w.Run(10*time.Minute, 5*time.Second)
		switch r, ks := w.States(id)[inbox], eventsOf(t, w, id)[inbox]; {
		case r.State == activity.Failed && (len(ks) != 1 || ks[0] != events.RecipientGone):
			t.Errorf("it is failed, and what was told is %v", ks)
		case r.State != activity.Failed && len(ks) > 0:
			t.Errorf("it is %s, and what was told is %v", r.State, ks)
		}
		return w
	})
}
