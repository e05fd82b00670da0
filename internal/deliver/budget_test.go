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

// A host is asked at most 50 times a day, for all of its inboxes and all of our actors
// together, whatever it answers that ends no delivery. 401 and 403 are two requests each, as
// both forms of the signature are tried; a 403 ends the delivery at the second.
func TestAHostThatAcceptsNothingCostsFiftyRequestsADay(t *testing.T) {
	long.NotUnderRace(t)
	t.Parallel()
	for _, c := range []struct {
		statuses []int
		keys     int
	}{
		{[]int{401}, 1},
		{[]int{401}, 5},
		{[]int{400}, 1},
		{[]int{500}, 1},
		{[]int{404, 401}, 2},
		{[]int{404, 500}, 1},
		{[]int{-1}, 1},
		{[]int{-300, 401, 400, 500, 404}, 3},
		{[]int{403}, 1},
	} {
		t.Run(fmt.Sprint(c.statuses, c.keys), func(t *testing.T) {
			w := world.New(t, world.Options{})
			answers := cycle(w, c.statuses...)
			requests := 0
			w.Servers.Script("bad.example", world.OneByOne(func(r world.Request, n int) outcome.Outcome {
				o := answers(r, n)
				if strings.HasPrefix(r.Inbox, "probe:") {
					return o
				}
				if o.Status == 401 || o.Status == 403 {
					o.Requests = 2
				}
				requests += o.Vain()
				return o
			}))
			for k := range c.keys {
				for range 3 {
					a := w.Activity("Create")
					a.KeyID = fmt.Sprintf("https://us.example/u%d#key", k)
					w.Send(a, inboxesAt("bad.example", 100)...)
				}
			}
			logged := w.Log.Len()
			for d := range long.Pick(2, 4) {
				before := requests
				w.Run(day, 5*time.Second)
				t.Logf("%d requests in vain on day %d, %d bytes of log", requests-before, d+1, w.Log.Len()-logged)
				if requests-before > 50 {
					t.Errorf("%d requests in vain on day %d, want at most 50", requests-before, d+1)
				}
				logged = w.Log.Len()
			}
		})
	}
}

// Each refusal costs a request in vain while both signature forms are tried. Once that has spent
// the budget, a trial is one request, which ends its delivery.
func TestAHostThatRefusesAllFormsGetsOneDeliveryAfterAnother(t *testing.T) {
	w := world.New(t, world.Options{})
	answers := cycle(w, 403)
	judged, inVain := 0, 0
	w.Servers.Script("bad.example", world.OneByOne(func(r world.Request, n int) outcome.Outcome {
		o := answers(r, n)
		if strings.HasPrefix(r.Inbox, "probe:") {
			return o
		}
		if s, err := circuit.Load(t.Context(), w.Raw(), circuit.HostKey("bad.example")); err != nil {
			t.Error(err)
		} else if !s.OneRequest(circuit.Default(), w.Now()) {
			o.Requests = 2
		}
		judged++
		inVain += o.Vain()
		return o
	}))
	const recipients = 300
	w.Send(w.Activity("Create"), inboxesAt("bad.example", recipients)...)
	w.Run(8*time.Hour, 5*time.Second)
	if judged != recipients || inVain > 50 {
		t.Errorf("after eight hours %d of %d deliveries are judged, with %d requests in vain, want all, and at most 50", judged, recipients, inVain)
	}
}

// A 404 to the second signature form shows that the host verifies it: however many of its inboxes
// do not exist, those that do get their deliveries.
func TestAHostThatTakesOneFormGetsWhatItTakes(t *testing.T) {
	w := world.New(t, world.Options{})
	const live = "https://form.example/live"
	inVain := 0
	w.Servers.Script("form.example", world.OneByOne(func(r world.Request, _ int) outcome.Outcome {
		s, err := circuit.Load(t.Context(), w.Raw(), circuit.HostKey("form.example"))
		if err != nil {
			t.Error(err)
		}
		o := world.Status(404)
		switch {
		case strings.HasPrefix(r.Inbox, "probe:"):
			return world.Status(200)
		case s.OneRequest(circuit.Default(), w.Now()):
			o = world.Status(403)
		case r.Inbox == live:
			o, o.Requests = world.Status(202), 2
		default:
			o.Requests = 2
		}
		inVain += o.Vain()
		return o
	}))
	w.Send(w.Activity("Create"), inboxesAt("form.example", 60)...)
	w.Run(time.Hour, 5*time.Second)
	id := w.Send(w.Activity("Create"), live)
	w.Run(day+2*time.Hour, 5*time.Second)
	w.Expect(id, map[string]activity.State{live: activity.Delivered})
	if inVain > 50+20 {
		t.Errorf("%d requests in vain in a day and three hours, want at most a day's 50, and 20 of the next", inVain)
	}
}

// An acceptance of any inbox begins the budget anew, and the inbox that accepted last has the
// first trial: however many inboxes of its host refuse, it gets its deliveries.
func TestInboxesThatRefuseStarveNoInboxThatAccepts(t *testing.T) {
	long.NotUnderRace(t)
	t.Parallel()
	w := world.New(t, world.Options{})
	const good = "https://mixed.example/good"
	bad := inboxesAt("mixed.example", 40)
	for _, inbox := range bad {
		w.Servers.Script(inbox, world.Answers(401))
	}
	w.Send(w.Activity("Create"), good)
	w.Work()
	for range long.Pick(12, 48) {
		id := w.Send(w.Activity("Create"), append(bad, good)...)
		w.Run(30*time.Minute, 5*time.Second)
		w.Expect(id, map[string]activity.State{good: activity.Delivered})
	}
}

// A shared inbox may ask for the other form of the signature before it answers 410: the first
// request is in vain.
func TestRequestsInVainBeforeA410CountAgainstTheBudget(t *testing.T) {
	w := world.New(t, world.Options{})
	requests := 0
	w.Servers.Script("bad.example", world.OneByOne(func(r world.Request, _ int) outcome.Outcome {
		if strings.HasPrefix(r.Inbox, "probe:") {
			return world.Status(200)
		}
		o := outcome.Outcome{Class: outcome.Gone, Status: 410, Err: "answered 410", Requests: 2}
		requests += o.Vain()
		return o
	}))
	for range 100 {
		w.Send(w.Activity("Create"), "https://bad.example/inbox")
	}
	w.Run(3*time.Hour, 5*time.Second)
	if requests > 50 {
		t.Errorf("%d requests in vain in three hours, want at most 50", requests)
	}
}
