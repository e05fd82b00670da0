package healthcheck_test

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

const inbox = "https://a.example/inbox"

// unverified is a 401 to both signature forms.
func unverified(world.Request, int) outcome.Outcome {
	o := world.Status(401)
	o.Requests = 2
	return o
}

// Found by the simulation: after the budget had opened its circuit, a host that refused each
// delivery on trial got one a day, so the last of many ended days later.
func TestAHostThatRefusesWhatIsOnTrialGetsAllThatWaits(t *testing.T) {
	long.NotUnderRace(t)
	for _, keys := range []int{4, 20} {
		t.Run(fmt.Sprint(keys), func(t *testing.T) {
			w := world.New(t, world.Options{})
			w.Servers.Script("a.example", unverified)
			want := map[activity.ID]string{}
			send := func() {
				for n := range 20 {
					a, inbox := w.Activity("Create"), fmt.Sprint("https://a.example/", n)
					a.KeyID = fmt.Sprintf("https://us.example/u%d#key", n%keys)
					want[w.Send(a, inbox)] = inbox
				}
			}
			for range 3 {
				send()
				w.Run(2*time.Hour, minut)
			}
			if s := state(t, w, circuit.HostKey("a.example")); s.CheckAt.Sub(w.Now()) < 12*time.Hour {
				t.Fatalf("the budget is not spent: %s", world.Brief(s))
			}
			w.Servers.Script("a.example", world.Answers(404))
			w.Run(25*time.Hour, minut)
			send()
			w.Run(2*time.Hour, minut)
			for id, inbox := range want {
				w.Expect(id, map[string]activity.State{inbox: activity.Failed})
			}
		})
	}
}

// Who names pages of a host as inboxes must not delay its users, whose inbox accepted last.
func TestManyRefusalsDelayNoInboxThatAcceptedLast(t *testing.T) {
	w := world.New(t, world.Options{})
	const good = "https://a.example/good"
	w.Send(w.Activity("Create"), good)
	w.Work()
	w.Servers.Script("a.example", unverified)
	for n := range 200 {
		a := w.Activity("Create")
		a.KeyID = fmt.Sprintf("https://us.example/u%d#key", n%20)
		w.Send(a, fmt.Sprint("https://a.example/page", n))
		if n%20 == 0 {
			a := w.Activity("Create")
			a.ExpiresAt = w.Now().Add(time.Hour)
			w.Send(a, good)
		}
	}
	w.Run(24*time.Hour, minut)
	w.Servers.Script("a.example", world.Answers(404))
	w.Servers.Script(good, world.Answers(202))
	host := circuit.HostKey("a.example")
	for !state(t, w, host).Trying(w.Now()) {
		w.Run(minut, minut)
	}
	id := w.Send(w.Activity("Create"), good)
	w.Run(15*minut, minut)
	w.Expect(id, map[string]activity.State{good: activity.Delivered})
}

// A 410 from a shared inbox ends a trial, too. Without that, an outage was followed by a trial a
// minute until nothing waited.
func TestATrialThatIsAnsweredGoneBeginsTheRecovery(t *testing.T) {
	w := world.New(t, world.Options{})
	w.Servers.Script("a.example", world.Down)
	var ids []activity.ID
	for range 60 {
		ids = append(ids, w.Send(w.Activity("Create"), inbox))
	}
	w.Run(3*minut, time.Second)
	w.Servers.Script("a.example", func(r world.Request, _ int) outcome.Outcome {
		if strings.HasPrefix(r.Inbox, "probe:") {
			return world.Status(200)
		}
		return outcome.Outcome{Class: outcome.Gone, Status: 410, Err: "answered 410"}
	})
	w.Run(15*minut, minut)
	for _, id := range ids {
		w.Expect(id, map[string]activity.State{inbox: activity.Failed})
	}
}

// An inbox whose own pause ended while its host was half-open stayed parked for ever, though it
// accepts.
func TestAnInboxThatWasPausedIsTriedAtAHostThatRefusesWhatIsOnTrial(t *testing.T) {
	w := world.New(t, world.Options{})
	const paused = "https://a.example/paused"
	w.Servers.Script(paused, func(world.Request, int) outcome.Outcome {
		return outcome.Outcome{Class: outcome.Throttled, Status: 429, Err: "answered 429", RetryAfter: w.Now().Add(12 * time.Hour)}
	})
	var waits []activity.ID
	for range 3 {
		waits = append(waits, w.Send(w.Activity("Create"), paused))
		w.Run(minut, time.Second)
	}
	w.Servers.Script("a.example", unverified)
	host := circuit.HostKey("a.example")
	for n := 0; state(t, w, host).Accepts(w.Now()); n++ {
		a := w.Activity("Create")
		a.KeyID = fmt.Sprintf("https://us.example/u%d#key", n)
		w.Send(a, fmt.Sprint("https://a.example/", n))
		w.Run(minut, time.Second)
	}
	w.Servers.Script("a.example", world.Answers(404))
	w.Servers.Script(paused, world.Answers(202))
	w.Run(13*time.Hour, minut)
	for _, id := range waits {
		w.Expect(id, map[string]activity.State{paused: activity.Delivered})
	}
}
