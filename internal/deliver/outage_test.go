package deliver_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/long"
	"fedpost/internal/testkit/world"
)

const day = 24 * time.Hour

// phase returns a server's phase as it is stored.
func phase(t *testing.T, w *world.World, key string) circuit.State {
	t.Helper()
	s, err := circuit.Load(t.Context(), w.Store, key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAServerThatIsBackGetsEverythingItMissed(t *testing.T) {
	long.NotUnderRace(t)
	t.Parallel()
	for _, outage := range long.Pick([]time.Duration{10 * time.Minute, 40 * time.Hour}, []time.Duration{10 * time.Minute, 3 * time.Hour, 40 * time.Hour, 6 * day}) {
		t.Run(outage.String(), func(t *testing.T) {
			w := world.New(t, world.Options{})
			w.Servers.Script("down.example", world.Down)
			var ids []activity.ID
			for i := range 300 {
				ids = append(ids, w.Send(w.Activity("Create"), fmt.Sprintf("https://down.example/users/%d/inbox", i%7), "https://up.example/inbox"))
			}
			w.Run(outage, time.Minute)
			attempts := len(w.Servers.Got()) - len(ids)
			if attempts > 60 {
				t.Errorf("%d attempts at a server that is down", attempts)
			}
			if s := phase(t, w, circuit.HostKey("down.example")); s.Phase != circuit.Unhealthy || !s.Parked {
				t.Fatalf("its state is %s", world.Brief(s))
			}
			w.Servers.Script("down.example", nil)
			w.Run(25*time.Hour, time.Minute)
			accepted := w.Servers.Accepted()
			for _, id := range ids {
				for inbox, r := range w.States(id) {
					if r.State != activity.Delivered || accepted[id][inbox] != 1 {
						t.Fatalf("%s to %s is %q and was accepted %d times", id, inbox, r.State, accepted[id][inbox])
					}
				}
			}
			if s := phase(t, w, circuit.HostKey("down.example")); s.Phase != circuit.Healthy || s.Parked || !s.CheckAt.IsZero() {
				t.Errorf("in the end its state is %s", world.Brief(s))
			}
			if len(w.DeadLetters.Deaths) > 0 {
				t.Errorf("%d deaths", len(w.DeadLetters.Deaths))
			}
		})
	}
}

func TestAfterSevenDaysTheDeliveriesOfADeadServerAreDead(t *testing.T) {
	w := world.New(t, world.Options{})
	w.Servers.Script("dead.example", world.Down)
	to := make([]string, 40)
	for i := range to {
		to[i] = fmt.Sprintf("https://dead.example/users/%d/inbox", i)
	}
	id := w.Send(w.Activity("Create"), to...)
	w.Run(7*day-time.Hour, 10*time.Minute)
	if len(w.DeadLetters.Deaths) > 0 {
		t.Fatalf("%d died early", len(w.DeadLetters.Deaths))
	}
	w.Run(3*time.Hour, time.Minute)
	for inbox, r := range w.States(id) {
		if r.State != activity.Dead {
			t.Errorf("%s is %q", inbox, r.State)
		}
	}
	if len(w.DeadLetters.Deaths) != len(to) {
		t.Errorf("%d were given up, want %d", len(w.DeadLetters.Deaths), len(to))
	}
	for _, d := range w.DeadLetters.Deaths {
		if d.Reason != "age" {
			t.Errorf("%s died of %q", d.Recipient.Target.Inbox, d.Reason)
		}
	}
	if !strings.Contains(w.Log.String(), "a server is exhausted") {
		t.Error("nothing was said about the server being exhausted")
	}
	w.Run(40*day, 6*time.Hour)
	if s := phase(t, w, circuit.HostKey("dead.example")); s.Version != "" {
		t.Errorf("the state of a host that nobody waits for is kept: %s", world.Brief(s))
	}
}

func TestThrottlingPausesTheWholeHost(t *testing.T) {
	w := world.New(t, world.Options{})
	until := world.Start.Add(30 * time.Minute)
	w.Servers.Script("busy.example", func(r world.Request, _ int) outcome.Outcome {
		if r.At.Before(until) {
			return outcome.Outcome{Class: outcome.Throttled, Status: 429, RetryAfter: until, Err: "answered 429"}
		}
		return world.Status(202)
	})
	var ids []activity.ID
	for i := range 50 {
		ids = append(ids, w.Send(w.Activity("Create"), fmt.Sprintf("https://busy.example/u/%d", i)))
	}
	w.Run(29*time.Minute, time.Minute)
	// Ten come at once, and three trials follow each pause of 2, 2, 4 and 8 minutes: no inbox
	// says for how long the host is paused.
	if n := len(w.Servers.Got()); n > 24 {
		t.Errorf("%d requests to a host that asked for a pause", n)
	}
	w.Run(20*time.Minute, time.Second)
	for i, id := range ids {
		w.Expect(id, map[string]activity.State{fmt.Sprintf("https://busy.example/u/%d", i): activity.Delivered})
	}
}

func TestABrokenInboxDoesNotStopItsHost(t *testing.T) {
	w := world.New(t, world.Options{})
	const bad, good = "https://mixed.example/bad", "https://mixed.example/good"
	w.Servers.Script(bad, world.Answers(500))
	var ids []activity.ID
	for range 30 {
		ids = append(ids, w.Send(w.Activity("Create"), bad, good))
		w.Run(time.Minute, 5*time.Second)
	}
	for _, id := range ids {
		w.Expect(id, map[string]activity.State{good: activity.Delivered})
	}
	if s := phase(t, w, circuit.InboxKey(bad)); s.Phase != circuit.Unhealthy || !s.Parked {
		t.Errorf("the inbox's state is %s", world.Brief(s))
	}
	if s := phase(t, w, circuit.HostKey("mixed.example")); !s.Accepts(w.Clock.Now()) {
		t.Errorf("the host's state is %s", world.Brief(s))
	}
	w.Servers.Script(bad, nil)
	w.Run(26*time.Hour, time.Minute)
	for _, id := range ids {
		w.Expect(id, map[string]activity.State{bad: activity.Delivered})
		if n := w.Servers.Accepted()[id][bad]; n != 1 {
			t.Errorf("accepted %d times", n)
		}
	}
}

func gone(world.Request, int) outcome.Outcome {
	return outcome.Outcome{Class: outcome.Gone, Status: 410, Err: "answered 410"}
}

func TestAServerIsGoneForADayWhenALookConfirmsIt(t *testing.T) {
	w := world.New(t, world.Options{})
	w.Servers.Script("gone.example", gone)
	first := w.Send(w.Activity("Create"), "https://gone.example/inbox")
	w.Run(2*time.Minute, time.Minute)
	second := w.Send(w.Activity("Create"), "https://gone.example/u/1", "https://gone.example/u/2")
	w.Run(time.Minute, time.Minute)
	w.Expect(first, map[string]activity.State{"https://gone.example/inbox": activity.Failed})
	w.Expect(second, map[string]activity.State{"https://gone.example/u/1": activity.Failed, "https://gone.example/u/2": activity.Failed})
	if n := len(w.Servers.Got()); n != 1 {
		t.Errorf("%d POSTs to a server that is gone", n)
	}
	w.Servers.Script("gone.example", nil)
	w.Run(6*time.Hour, time.Minute)
	third := w.Send(w.Activity("Create"), "https://gone.example/u/1")
	w.Work()
	w.Expect(third, map[string]activity.State{"https://gone.example/u/1": activity.Delivered})
}

func TestOne410CondemnsNoServer(t *testing.T) {
	for name, c := range map[string]struct {
		typ  string
		look world.Script // what the server itself answers
		want int          // looks
	}{
		"of an actor that is gone":              {"Create", nil, 1},
		"to a Delete":                           {"Delete", gone, 0},
		"from a server that answers only inbox": {"Create", world.Answers(404), 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := world.New(t, world.Options{})
			const shared, other = "https://gts.example/inbox", "https://gts.example/u/2"
			looks := 0
			w.Servers.Script("gts.example", world.OneByOne(func(r world.Request, n int) outcome.Outcome {
				if looks++; c.look == nil {
					return world.Status(200)
				}
				return c.look(r, n)
			}))
			w.Servers.Script(shared, gone)
			w.Servers.Script(other, world.Answers(202))
			for range 5 {
				w.Send(w.Activity(c.typ), shared)
				w.Run(2*time.Minute, time.Minute)
			}
			id := w.Send(w.Activity("Create"), other)
			w.Run(time.Minute, time.Minute)
			w.Expect(id, map[string]activity.State{other: activity.Delivered})
			if looks != c.want {
				t.Errorf("%d looks at the server, want %d", looks, c.want)
			}
			if s := phase(t, w, circuit.HostKey("gts.example")); s.Phase != circuit.Healthy || !s.CheckAt.IsZero() {
				t.Errorf("its state is %s", world.Brief(s))
			}
		})
	}
}

func TestAHostThatThrottlesForEverCostsFewRequests(t *testing.T) {
	long.NotUnderRace(t)
	t.Parallel()
	for _, asked := range []time.Duration{time.Second, 10 * time.Second, 10 * time.Minute} {
		t.Run(asked.String(), func(t *testing.T) {
			w := world.New(t, world.Options{})
			w.Servers.Script("busy.example", func(r world.Request, _ int) outcome.Outcome {
				return outcome.Outcome{Class: outcome.Throttled, Status: 429, RetryAfter: r.At.Add(asked), Err: "answered 429"}
			})
			for range 200 {
				w.Send(w.Activity("Create"), "https://busy.example/inbox")
			}
			last := 0
			for d := range 3 {
				w.Run(day, time.Second)
				n := len(w.Servers.Got())
				t.Logf("day %d: %d POSTs", d+1, n-last)
				if n-last > 50 {
					t.Errorf("%d POSTs on day %d to a host that accepts none", n-last, d+1)
				}
				last = n
			}
			w.Servers.Script("busy.example", nil)
			w.Run(13*time.Hour, time.Minute)
			if n := len(w.Servers.Got()) - last; n != 200 {
				t.Errorf("%d of 200 were delivered in the half day after it accepted again: %s", n, world.Brief(phase(t, w, circuit.HostKey("busy.example"))))
			}
		})
	}
}
