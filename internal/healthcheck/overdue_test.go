package healthcheck_test

import (
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/world"
)

// TestWhatIsOverdueTakesNoTurnUnderARateLimit: a lot that has grown older than
// deliveries may wait ends whole in one run, and what is not overdue goes at the
// rate. With a turn for each overdue delivery, what comes after them would be
// overdue in its turn.
func TestWhatIsOverdueTakesNoTurnUnderARateLimit(t *testing.T) {
	const perMinute, old = 30, 400
	w := world.New(t, world.Options{})
	key := circuit.HostKey("down.example")
	if _, err := w.Limits.Set(t.Context(), "down.example", perMinute, 1); err != nil {
		t.Fatal(err)
	}
	if _, _, err := circuit.Change(t.Context(), w.Store, key, func(s circuit.State) circuit.State {
		return s.LimitTo(circuit.Default(), perMinute, w.Now())
	}); err != nil {
		t.Fatal(err)
	}
	for range old {
		w.Send(w.Activity("Create"), down)
	}
	w.Work()
	if s := state(t, w, key); !s.Parked {
		t.Fatalf("nothing is parked: %s", world.Brief(s))
	}
	w.Clock.Advance(8 * 24 * time.Hour)
	young := w.Send(w.Activity("Create"), down)
	w.Run(3*minut, time.Second)
	if got := len(w.DeadLetters.Deaths); got < old-5 {
		t.Errorf("3 minutes after a stop of 8 days %d of %d are given up", got, old)
	}
	w.Expect(young, map[string]activity.State{down: activity.Delivered})
}

// TestWhatExpiresUsesUpNoQuickCheck was found by the simulation: each check at which
// something had expired brought the next one forward, so the quick checks of two hours
// were over after half an hour, and a server that was back after an hour got nothing for a
// day.
func TestWhatExpiresUsesUpNoQuickCheck(t *testing.T) {
	w := world.New(t, world.Options{})
	w.Servers.Script("down.example", world.Down)
	waiting := w.Send(w.Activity("Create"), down)
	w.Run(2*minut, time.Second)
	for range 6 {
		a := w.Activity("Create")
		a.ExpiresAt = w.Now().Add(4 * minut)
		w.Send(a, down)
		w.Run(5*minut, minut)
	}
	w.Run(30*minut, minut)
	w.Servers.Script("down.example", nil)
	w.Run(90*minut, minut)
	w.Expect(waiting, map[string]activity.State{down: activity.Delivered})
}
