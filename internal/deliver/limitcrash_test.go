package deliver_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/faults"
	"fedpost/internal/testkit/world"
)

var slowHost = circuit.HostKey("slow.example")

// firstSeen checks that a host accepted a line's activities for the first time in
// the order they were sent. What came twice, in the gap, is up to Doubles.
func firstSeen(t *testing.T, w *world.World, l line) {
	t.Helper()
	var order []activity.ID
	for _, r := range w.Servers.Got() {
		if r.Accepted && slices.Contains(l.ids, r.Activity.ID) && !slices.Contains(order, r.Activity.ID) {
			order = append(order, r.Activity.ID)
		}
	}
	if !slices.Equal(order, l.ids) {
		t.Errorf("line %s was accepted as %v, want %v", l.key, order, l.ids)
	}
}

// insist does what an operator asks for, who tries again if a call breaks.
func insist(t *testing.T, w *world.World, p *faults.Plan, do func() error) {
	t.Helper()
	for range 3 {
		err := do()
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "injected") {
			t.Fatal(err)
		}
		if p.Dead() {
			p.Revive()
			w.Restart()
		}
	}
	t.Fatal("three tries failed")
}

// mixed sends three ordered activities and one without an order to a host.
func mixed(w *world.World) (l line, ids []activity.ID) {
	l.key = "one"
	for i := range 4 {
		a := w.Activity("Create")
		if i < 3 {
			a.OrderingKey = l.key
		}
		ids = append(ids, w.Send(a, "https://slow.example/inbox"))
	}
	l.ids = ids[:3]
	return l, ids
}

func TestNothingIsLostNorReorderedWhateverCallFailsUnderARateLimit(t *testing.T) {
	sweep(t, func(t *testing.T, o world.Options) *world.World {
		w := oneByOne(t, o)
		insist(t, w, o.Plan, func() error {
			_, err := w.Limits.Set(t.Context(), "slow.example", 1, 1)
			return err
		})
		insist(t, w, o.Plan, func() error {
			_, _, err := circuit.Change(t.Context(), w.Store, slowHost, func(s circuit.State) circuit.State {
				return s.LimitTo(circuit.Default(), 1, w.Now())
			})
			return err
		})
		l, ids := mixed(w)
		w.Run(30*time.Hour, 10*time.Second)
		for _, id := range ids {
			w.Expect(id, map[string]activity.State{"https://slow.example/inbox": activity.Delivered})
		}
		firstSeen(t, w, l)
		if n := w.Parked(slowHost); n != 0 {
			t.Errorf("%d are parked still", n)
		}
		return w
	})
}

func TestEverythingEndsWhateverCallFailsWhileAServerIsBlocked(t *testing.T) {
	sweep(t, func(t *testing.T, o world.Options) *world.World {
		w := oneByOne(t, o)
		w.Servers.Script("slow.example", world.Down)
		_, ids := mixed(w)
		w.Run(10*time.Minute, 10*time.Second)
		insist(t, w, o.Plan, func() error {
			_, _, err := circuit.Change(t.Context(), w.Store, slowHost, func(s circuit.State) circuit.State {
				return s.Block(circuit.Default(), "spam", w.Now())
			})
			return err
		})
		w.Run(30*time.Hour, 10*time.Second)
		for _, id := range ids {
			w.Expect(id, map[string]activity.State{"https://slow.example/inbox": activity.Failed})
		}
		if n := w.Parked(slowHost); n != 0 {
			t.Errorf("%d are parked still", n)
		}
		return w
	})
}
