package deliver_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/app/topology"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/message"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/world"
)

// unseen is a table in which a parking lot is emptied just before a delivery is parked
// there, by a process that remembers that something is parked. Then the state of servers
// cannot be written for a time, so parking fails.
type unseen struct {
	table.Table
	change func(func(circuit.State) circuit.State) // of slow.example
	drain  func()
	fails  bool
}

func (u *unseen) PutAll(ctx context.Context, items []table.Item) error {
	if u.drain != nil && len(items) > 0 && strings.HasPrefix(items[0].PK, "P#") {
		u.drain()
		u.drain, u.fails = nil, true
	}
	return u.Table.PutAll(ctx, items)
}

func (u *unseen) Put(ctx context.Context, it table.Item, cond table.Cond) error {
	if u.fails && strings.HasPrefix(it.PK, "S#") {
		return errors.New("injected: the table takes no states")
	}
	return u.Table.Put(ctx, it, cond)
}

// parksUnseen makes a world in which a delivery to slow.example is parked, and nobody
// knows.
func parksUnseen(t *testing.T) (*world.World, *unseen) {
	u, rules := &unseen{}, circuit.Default()
	w := world.New(t, world.Options{Table: func(t table.Table) table.Table {
		u.Table = t
		return u
	}})
	u.change = func(f func(circuit.State) circuit.State) {
		if _, _, err := circuit.Change(t.Context(), w.Raw(), slowHost, f); err != nil {
			t.Fatal(err)
		}
	}
	u.change(func(s circuit.State) circuit.State {
		return s.Fault(rules, outcome.Timeout, "", w.Now()).Park(rules, w.Now())
	})
	u.drain = func() {
		u.change(func(s circuit.State) circuit.State {
			return s.Resume(rules, w.Now()).Drained(rules, w.Now()).Emptied(rules, w.Now())
		})
	}
	return w, u
}

// A worker that had written the spot of a delivery failed before it had made a look for the spot
// due. Its message came back and was delivered, and the spot stayed for as long as nothing else was
// parked there.
func TestWhatWasParkedByAReceiveThatFailedIsLookedFor(t *testing.T) {
	const inbox = "https://slow.example/inbox"
	for name, c := range map[string]struct {
		send func(*testing.T, *world.World, activity.Activity)
		sent int
	}{
		"at first": {func(_ *testing.T, w *world.World, a activity.Activity) { w.Send(a, inbox) }, 1},
		"in order": {func(_ *testing.T, w *world.World, a activity.Activity) {
			a.OrderingKey = "one"
			w.Send(a, inbox)
		}, 1},
		"after a claim": {func(t *testing.T, w *world.World, a activity.Activity) {
			record(t, w, a.ID, []string{inbox})
			put(t, w, queue.Normal, message.Message{Activity: &a, Deliver: &message.Delivery{Targets: targets([]string{inbox}), Generation: 1}})
		}, 1},
		"and expires": {func(_ *testing.T, w *world.World, a activity.Activity) {
			a.ExpiresAt = w.Now().Add(time.Second)
			w.Send(a, inbox)
		}, 0},
		"and is put on its queue anew": {func(t *testing.T, w *world.World, a activity.Activity) {
			w.Send(a, inbox)
			q := topology.Of(queue.Normal)
			for range q.MaxReceives - 80 {
				if got := receive(t, w, queue.Normal); len(got) != 1 {
					t.Fatalf("%d received", len(got))
				}
				w.Clock.Advance(q.Visibility) // the process dies
			}
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w, u := parksUnseen(t)
			c.send(t, w, w.Activity("Create"))
			w.Work()
			s, err := circuit.Load(t.Context(), w.Raw(), slowHost)
			if err != nil || s.Parked || !s.CheckAt.IsZero() || w.Parked(slowHost) != 1 {
				t.Fatalf("%d are parked, %s, %v: nothing is shown", w.Parked(slowHost), world.Brief(s), err)
			}
			u.fails = false
			w.Run(time.Hour, 10*time.Second)
			if n := w.Parked(slowHost); n != 0 {
				t.Errorf("%d are parked still", n)
			}
			if n := len(w.Servers.Got()); n != c.sent {
				t.Errorf("%d requests, want %d", n, c.sent)
			}
			w.Quiet()
		})
	}
}

// Such a spot held up the next of its group for a day, when something else that was parked
// for the server waited for a time of its own.
func TestASpotThatAFailedReceiveLeftHoldsUpNoGroup(t *testing.T) {
	const inbox = "https://slow.example/inbox"
	w, u := parksUnseen(t)
	send := func(key string) activity.ID {
		a := w.Activity("Create")
		a.OrderingKey = key
		return w.Send(a, inbox)
	}
	send("one")
	w.Work()
	u.fails = false
	w.Run(10*time.Minute, 10*time.Second)
	if _, err := w.Limits.Set(t.Context(), "slow.example", 1, 1); err != nil {
		t.Fatal(err)
	}
	u.change(func(s circuit.State) circuit.State { return s.LimitTo(circuit.Default(), 1, w.Now()) })
	for range 4 {
		send("two")
	}
	w.Work()
	id := send("one")
	w.Run(time.Hour, 10*time.Second)
	w.Expect(id, map[string]activity.State{inbox: activity.Delivered})
}
