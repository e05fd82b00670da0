package healthcheck_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/engine/queue"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/long"
	"fedpost/internal/testkit/world"
)

// TestWhatIsOverdueTakesNoSlotUnderARateLimit: the overdue part of a lot ends in one run, and the
// rest goes at the rate. If each overdue delivery took a slot, those behind them would be overdue
// by their own slots.
func TestWhatIsOverdueTakesNoSlotUnderARateLimit(t *testing.T) {
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
	// One was delivered before the stop. Those with a slot within a minute waited on their queue,
	// which keeps messages for 7 days.
	parked := old - 1 - perMinute
	if got := len(w.DeadLetters.Deaths); got < parked {
		t.Errorf("3 minutes after a stop of 8 days %d are given up, want all %d that were parked", got, parked)
	}
	w.Expect(young, map[string]activity.State{down: activity.Delivered})
}

// TestWhatIsOverdueTakesNoPlaceInTheRamp: at a thousand releases a minute, eleven thousand
// deliveries that were too old kept those behind them waiting for eleven minutes.
func TestWhatIsOverdueTakesNoPlaceInTheRamp(t *testing.T) {
	old := long.Pick(1000, 3000)
	w := world.New(t, world.Options{})
	key := circuit.HostKey("down.example")
	w.Servers.Script("down.example", world.Down)
	w.Send(w.Activity("Create"), down)
	w.Run(2*minut, time.Second)
	for range old {
		w.Send(w.Activity("Create"), down)
	}
	w.Work()
	// The schedule stands still for a week.
	w.Clock.Advance(8 * 24 * time.Hour)
	young := w.Send(w.Activity("Create"), down)
	w.Work()
	w.Servers.Script("down.example", nil)
	if _, _, err := circuit.Change(t.Context(), w.Store, key, func(s circuit.State) circuit.State {
		return s.Resume(circuit.Default(), w.Now())
	}); err != nil {
		t.Fatal(err)
	}
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

// TestWhatIsParkedForAnInboxOnTrialEndsAtItsGiveUpTimeWhileItsHostIsPaused for longer: no
// trial is made during the pause.
func TestWhatIsParkedForAnInboxOnTrialEndsAtItsGiveUpTimeWhileItsHostIsPaused(t *testing.T) {
	w := world.New(t, world.Options{})
	const host, inbox = "m.example", "https://m.example/inbox"
	w.Servers.Script(host, func(world.Request, int) outcome.Outcome { return world.Status(401) })
	a := w.Activity("Create")
	a.KeyID = "https://us.example/u#main-key"
	id := w.Send(a, inbox)
	w.Run(10*time.Minute, time.Second)
	lot := w.States(id)[inbox].Lot
	if lot == "" {
		t.Fatal("not parked under its inbox")
	}
	change := func(key string, f func(circuit.State) circuit.State) {
		if _, _, err := circuit.Change(t.Context(), w.Store, key, f); err != nil {
			t.Fatal(err)
		}
	}
	change(circuit.InboxKey(inbox)+strings.TrimPrefix(lot, "inbox"), func(s circuit.State) circuit.State { return s.CheckPassed(circuit.Default(), w.Now()) })
	change(circuit.HostKey(host), func(s circuit.State) circuit.State {
		return s.Pause(circuit.Default(), w.Now().Add(30*24*time.Hour), "trouble", w.Now())
	})
	w.Run(9*24*time.Hour, time.Minute)
	w.Expect(id, map[string]activity.State{inbox: activity.Dead})
}

// TestATrialThatIsAnsweredWithAnErrorIsRepeatedOnOtherInboxesOnly: where there is no other
// inbox, each check costs one attempt.
func TestATrialThatIsAnsweredWithAnErrorIsRepeatedOnOtherInboxesOnly(t *testing.T) {
	for inboxes, most := range map[int]int{1: 15, 5: 45} {
		w := world.New(t, world.Options{})
		w.Servers.Script("m.example", func(r world.Request, _ int) outcome.Outcome {
			if strings.HasPrefix(r.Inbox, "probe:") {
				return world.Status(200)
			}
			return world.Status(500)
		})
		for i := range 8 {
			w.Send(w.Activity("Create"), fmt.Sprintf("https://m.example/u/%d/inbox", i%inboxes))
		}
		w.Run(24*time.Hour, time.Second)
		attempts := 0
		for _, r := range w.Servers.Got() {
			if !strings.HasPrefix(r.Inbox, "probe:") {
				attempts++
			}
		}
		if attempts > most || inboxes > 1 && attempts <= 15 {
			t.Errorf("%d attempts in a day at %d inboxes that answer 500", attempts, inboxes)
		}
	}
}

// Found by the simulation: while a queue lagged, each look at a server that was down released
// everything overdue once more, every six minutes, which SQS takes for new messages. The queue grew
// faster than it was worked on: 83 receives of one post, in two hours.
func TestWhatIsTooOldIsNotReleasedAgainAndAgainWhileItsQueueLags(t *testing.T) {
	const n = 5
	w := world.New(t, world.Options{})
	w.Servers.Script("down.example", world.Down)
	for range n {
		a := w.Activity("Create")
		a.OrderingKey = "actor"
		w.Send(a, down)
	}
	w.Run(7*24*time.Hour-10*minut, minut)
	for range 120 { // in which nobody works on the queue
		if err := w.Checks.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.Clock.Advance(minut)
	}
	released := 0
	for some := w.Poll(queue.Ordered); some > 0; some = w.Poll(queue.Ordered) {
		released += some
	}
	if released < n || released > 3*n {
		t.Errorf("%d deliveries were released %d times in two hours", n, released)
	}
}
