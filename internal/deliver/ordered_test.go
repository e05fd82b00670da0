package deliver_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/testkit/property"
	"fedpost/internal/testkit/world"
)

// line is what was sent of one ordering key, in order.
type line struct {
	key string
	ids []activity.ID
}

// checkOrder checks that each inbox accepted the activities of each key in the order they were
// sent, each once, whatever happened on the way. That its host did, but for inboxes which took
// nothing while others did, is for the simulation to check.
func checkOrder(t rapid.TB, w *world.World, lines []line) {
	t.Helper()
	inOrder(t, w, lines)
	for id, by := range w.Servers.Accepted() {
		for inbox, n := range by {
			if n != 1 {
				t.Fatalf("%s was accepted %d times by %s", id, n, inbox)
			}
		}
	}
}

// inOrder is checkOrder where a crash may have an activity accepted twice.
func inOrder(t rapid.TB, w *world.World, lines []line) {
	t.Helper()
	place := map[activity.ID]int{}
	key := map[activity.ID]string{}
	for _, l := range lines {
		for i, id := range l.ids {
			place[id], key[id] = i, l.key
		}
	}
	last := map[string]int{}
	for _, r := range w.Servers.Got() {
		if !r.Accepted {
			continue
		}
		group := key[r.Activity.ID] + " at " + r.Inbox
		if before, ok := last[group]; ok && place[r.Activity.ID] < before {
			t.Fatalf("%s: number %d came after number %d", group, place[r.Activity.ID], before)
		}
		last[group] = place[r.Activity.ID]
	}
}

func TestCreateUpdateDeleteArriveInOrderUnderRandomFailures(t *testing.T) {
	t.Parallel()
	property.Check(t, func(rt *rapid.T) {
		w := world.New(t, world.Options{Seed: rapid.Uint64().Draw(rt, "seed")})
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "faults"), 2))
		share := rapid.Float64Range(0, 0.9).Draw(rt, "share of failures")
		calm := w.Clock.Now().Add(time.Duration(rapid.IntRange(1, 600).Draw(rt, "calm after minutes")) * time.Minute)
		var mu sync.Mutex // of random, which all three draw from
		for h := range 3 {
			w.Servers.Script(fmt.Sprintf("h%d.example", h), func(r world.Request, _ int) outcome.Outcome {
				mu.Lock()
				defer mu.Unlock()
				if r.At.After(calm) || random.Float64() >= share {
					return world.Status(202)
				}
				switch random.IntN(4) {
				case 0:
					return outcome.Outcome{Class: outcome.Throttled, Status: 429, RetryAfter: r.At.Add(time.Duration(1+random.IntN(20)) * time.Minute)}
				case 1:
					return world.Status(500)
				case 2:
					return world.Status(503)
				}
				return world.Down(r, 0)
			})
		}
		var lines []line
		for k := range rapid.IntRange(1, 3).Draw(rt, "keys") {
			lines = append(lines, line{key: fmt.Sprintf("note %d", k)})
		}
		to := []string{"https://h0.example/inbox", "https://h1.example/inbox", "https://h2.example/u/1", "https://h2.example/u/2"}
		for range rapid.IntRange(3, 12).Draw(rt, "activities") {
			l := &lines[random.IntN(len(lines))]
			a := w.Activity([]string{"Create", "Update", "Update", "Delete"}[min(len(l.ids), 3)])
			a.OrderingKey = l.key
			l.ids = append(l.ids, w.Send(a, to...))
			w.Run(time.Duration(random.IntN(300))*time.Second, 10*time.Second)
			if random.IntN(4) == 0 {
				w.Restart()
			}
		}
		w.Run(calm.Sub(w.Clock.Now()), time.Minute)
		w.Run(26*time.Hour, 10*time.Minute)
		checkOrder(rt, w, lines)
		for _, l := range lines {
			for _, id := range l.ids {
				for inbox, r := range w.States(id) {
					if r.State != activity.Delivered {
						rt.Fatalf("%s of %s to %s is %q after %d attempts: %s", id, l.key, inbox, r.State, r.Attempts, r.LastError)
					}
				}
			}
		}
	})
}

func TestAStuckInboxHoldsItsOwnGroupOnly(t *testing.T) {
	w := world.New(t, world.Options{})
	const stuck, other = "https://mixed.example/stuck", "https://mixed.example/other"
	w.Servers.Script(stuck, func(r world.Request, _ int) outcome.Outcome {
		if r.Activity.OrderingKey == "a" {
			return world.Status(500)
		}
		return world.Status(202)
	})
	send := func(key, inbox string) activity.ID {
		a := w.Activity("Update")
		a.OrderingKey = key
		return w.Send(a, inbox)
	}
	var held, free []activity.ID
	for range 4 {
		held = append(held, send("a", stuck))
		free = append(free, send("b", other))
		w.Run(3*time.Minute, 5*time.Second)
	}
	for _, id := range free {
		w.Expect(id, map[string]activity.State{other: activity.Delivered})
	}
	got := w.Servers.Got()
	if slices.ContainsFunc(got, func(r world.Request) bool { return slices.Contains(held[1:], r.Activity.ID) }) {
		t.Error("something overtook the head of the group")
	}
	w.Servers.Script(stuck, nil)
	w.Run(time.Hour, time.Minute)
	for _, id := range held {
		w.Expect(id, map[string]activity.State{stuck: activity.Delivered})
	}
	checkOrder(t, w, []line{{"a", held}, {"b", free}})
}

func TestAHostThatIsBackGetsALongGroupInOrderAndQuickly(t *testing.T) {
	w := world.New(t, world.Options{})
	const inbox = "https://down.example/inbox"
	w.Servers.Script("down.example", world.Down)
	l := line{key: "long"}
	for range 200 {
		a := w.Activity("Update")
		a.OrderingKey = l.key
		l.ids = append(l.ids, w.Send(a, inbox))
	}
	w.Run(3*time.Hour, time.Minute)
	w.Servers.Script("down.example", nil)
	w.Run(24*time.Hour, time.Minute)
	for _, id := range l.ids {
		w.Expect(id, map[string]activity.State{inbox: activity.Delivered})
	}
	checkOrder(t, w, []line{l})
}

// TestChecksOfItsServerUseUpNoQuickWaitOfAGroup was found by the simulation: the head of a
// group, parked under its server, is the trial of each check. Once another inbox had
// shown the server to be well, those trials counted as waits that the head had had by
// itself. So after half an hour its next try was a day away.
func TestChecksOfItsServerUseUpNoQuickWaitOfAGroup(t *testing.T) {
	for other := range 8 {
		w := world.New(t, world.Options{})
		const stuck = "https://mixed.example/stuck"
		w.Servers.Script(stuck, world.Answers(500))
		a := w.Activity("Update")
		a.OrderingKey = "a"
		held := w.Send(a, stuck)
		before := time.Duration(7*other) * time.Minute
		w.Run(before, time.Second)
		w.Send(w.Activity("Create"), "https://mixed.example/other")
		w.Run(time.Hour-before, time.Second)
		tries := w.States(held)[stuck].Attempts
		w.Servers.Script(stuck, nil)
		w.Run(100*time.Minute, time.Second)
		if s := w.States(held)[stuck]; s.State != activity.Delivered {
			t.Errorf("another inbox had a delivery after %s: %s after %d tries in an hour, next at %s", before, s.State, tries, s.NextAttemptAt.Sub(w.Now()))
		}
	}
}
