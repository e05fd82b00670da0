package deliver_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/long"
	"fedpost/internal/testkit/world"
)

// Actors of a stranger named pages of another server as their inboxes. Each page answered
// with an error, so the circuit of that server opened, and all its trials went to pages:
// with ten of them 10 of 24 deliveries to the server's own inbox died and 4 were parked for
// a week, and with thirty 23 were.
func TestWhoNamesPagesOfAServerAsInboxesKeepsItsUsersFromNothing(t *testing.T) {
	long.NotUnderRace(t)
	t.Parallel()
	const pages, posts = 20, 4
	const inbox, bob = "https://victim.example/inbox", "https://victim.example/users/bob/inbox"
	reset := func(world.Request, int) outcome.Outcome {
		return outcome.Outcome{Class: outcome.Retry, Reason: outcome.ConnReset, Err: "connection reset"}
	}
	for name, c := range map[string]struct {
		page   world.Script
		outage bool // of the server's own inbox
	}{
		"that redirect":           {page: world.Answers(302)},
		"that reset connections":  {page: reset},
		"and the server restarts": {page: world.Answers(500), outage: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := world.New(t, world.Options{})
			all := []string{inbox}
			for n := range pages {
				page := fmt.Sprintf("https://victim.example/page%d", n)
				w.Servers.Script(page, c.page)
				all = append([]string{page}, all...)
			}
			w.Send(w.Activity("Create"), inbox)
			w.Run(time.Hour, time.Minute)
			var ids []activity.ID
			for n := range posts {
				ids = append(ids, w.Send(w.Activity("Create"), all...))
				if c.outage && n == 1 {
					w.Servers.Script(inbox, world.Down)
					w.Run(20*time.Minute, 10*time.Second)
					w.Servers.Script(inbox, nil)
				}
				w.Run(time.Hour, 20*time.Second)
			}
			accept := w.Send(w.Activity("Accept"), bob)
			w.Run(time.Hour, 20*time.Second)
			w.Expect(accept, map[string]activity.State{bob: activity.Delivered})
			for n, id := range ids {
				if got := w.States(id)[inbox].State; got != activity.Delivered {
					t.Errorf("post %d to the server's own inbox is %s", n, got)
				}
			}
			before := len(w.Servers.Got())
			w.Run(24*time.Hour, 15*time.Minute)
			if day := len(w.Servers.Got()) - before; before > 20*pages || day > 2*pages {
				t.Errorf("%d POSTs in the first hours and %d in the day after, to %d pages that take nothing", before, day, pages)
			}
		})
	}
}

// The circuit of a server may stay open for others that fail while one of its inboxes takes
// what it gets. Each delivery that this inbox took made a check due at once, and each check
// tried the ordered delivery to the inbox that fails: 96 times a day with 96 taken a day.
func TestWhatAnInboxTakesHasNoOtherTriedEachTime(t *testing.T) {
	const inbox, page = "https://victim.example/inbox", "https://victim.example/page"
	w := world.New(t, world.Options{})
	w.Send(w.Activity("Create"), inbox)
	w.Run(time.Hour, time.Minute)
	w.Servers.Script(page, world.Answers(500))
	a := w.Activity("Create")
	a.OrderingKey = "actor"
	id := w.Send(a, page)
	w.Run(4*time.Hour, 10*time.Second)
	if s, err := circuit.Load(t.Context(), w.Store, circuit.HostKey("victim.example")); err != nil || !s.Works() {
		t.Fatalf("this test shows nothing: %s, %v", world.Brief(s), err)
	}
	for d := range 8 {
		took, had := posts(w, inbox), posts(w, page)
		for range 24 * 4 {
			w.Send(w.Activity("Create"), inbox)
			w.Run(15*time.Minute, 15*time.Second)
		}
		if taken, tried := posts(w, inbox)-took, posts(w, page)-had; taken != 24*4 || tried > 3 || tried < 1 && d < 6 {
			t.Errorf("%d deliveries were taken in day %d, and the other was tried %d times", taken, d, tried)
		}
	}
	if tried := posts(w, page); tried > 25 {
		t.Errorf("%d tries before the delivery to the other inbox was given up", tried)
	}
	w.Expect(id, map[string]activity.State{page: activity.Dead})
}

// Ordered deliveries to inboxes that work do not wait for the checks of a server whose
// circuit another inbox keeps open, which come once a day in a long outage.
func TestOrderedDeliveriesToInboxesOfAServerThatWorksWaitForNoOther(t *testing.T) {
	const inbox, bob, page = "https://victim.example/inbox", "https://victim.example/users/bob/inbox", "https://victim.example/page"
	for _, to := range []string{inbox, bob} {
		t.Run(to, func(t *testing.T) {
			w := world.New(t, world.Options{})
			w.Send(w.Activity("Create"), inbox)
			w.Run(time.Hour, time.Minute)
			ordered := func(key, to string) activity.ID {
				a := w.Activity("Create")
				a.OrderingKey = key
				return w.Send(a, to)
			}
			w.Servers.Script(page, world.Answers(500))
			ordered("stranger", page)
			w.Run(time.Hour, 10*time.Second)
			for range 24 * 3 {
				w.Send(w.Activity("Create"), inbox)
				w.Run(time.Hour, time.Minute)
			}
			if s, err := circuit.Load(t.Context(), w.Store, circuit.HostKey("victim.example")); err != nil || !s.Works() {
				t.Fatalf("this test shows nothing: %s, %v", world.Brief(s), err)
			}
			first, second := ordered("actor", to), ordered("actor", to)
			for range 4 {
				w.Send(w.Activity("Create"), inbox)
				w.Run(15*time.Minute, 15*time.Second)
			}
			w.Expect(first, map[string]activity.State{to: activity.Delivered})
			w.Expect(second, map[string]activity.State{to: activity.Delivered})
		})
	}
}

// Ordered deliveries to an inbox that takes nothing, each with an ordering key of its own,
// were tried 206 times in 200 of them: at least one at each check, and each delivery that
// another inbox of the server took made a check due.
func TestOrderedDeliveriesToAnInboxThatTakesNothingCostFewPostsWhileItsServerWorks(t *testing.T) {
	const inbox, page = "https://victim.example/inbox", "https://victim.example/page"
	w := world.New(t, world.Options{})
	w.Send(w.Activity("Create"), inbox)
	w.Run(time.Hour, time.Minute)
	w.Servers.Script(page, world.Answers(500))
	for n := range 200 {
		a := w.Activity("Create")
		a.OrderingKey = fmt.Sprint("stranger", n)
		w.Send(a, page)
		w.Run(3*time.Minute, 15*time.Second)
		w.Send(w.Activity("Create"), inbox)
		w.Run(3*time.Minute, 15*time.Second)
	}
	if tried := posts(w, page); tried > 30 {
		t.Errorf("%d POSTs in 20 hours to an inbox that takes none", tried)
	}
}

// An inbox that is down leaves the group of its host: later deliveries of the ordering key to other
// inboxes there go on, and those to this inbox keep their order, also when it is back.
func TestAnInboxThatIsDownHoldsUpNoOtherInboxOfItsOrderingKey(t *testing.T) {
	const good, bad = "https://mixed.example/good", "https://mixed.example/bad"
	w := world.New(t, world.Options{})
	var took []activity.ID
	down := true
	w.Servers.Script(bad, world.OneByOne(func(r world.Request, _ int) outcome.Outcome {
		if down {
			return world.Status(500)
		}
		took = append(took, r.Activity.ID)
		return world.Status(202)
	}))
	send := func(to ...string) activity.ID {
		a := w.Activity("Create")
		a.OrderingKey = "actor"
		return w.Send(a, to...)
	}
	w.Send(w.Activity("Create"), good)
	want := []activity.ID{send(bad)}
	for range 30 { // which tell that the host accepts others
		w.Send(w.Activity("Create"), good)
		w.Run(10*time.Second, time.Second)
	}
	for range 8 {
		want = append(want, send(bad), send(bad, good))
		id := send(good)
		w.Run(time.Minute, time.Second)
		w.Expect(want[len(want)-1], map[string]activity.State{good: activity.Delivered, bad: activity.Parked})
		w.Expect(id, map[string]activity.State{good: activity.Delivered})
	}
	if s := phase(t, w, circuit.HostKey("mixed.example")); !s.Accepts(w.Now()) {
		t.Fatalf("this test shows nothing: %s", world.Brief(s))
	}
	tries := posts(w, bad)
	w.Run(6*time.Hour, 10*time.Second)
	if n := posts(w, bad) - tries; n > 10 {
		t.Errorf("%d tries in six hours at the inbox that is down", n)
	}
	down = false
	for range 25 {
		w.Run(time.Hour, 10*time.Second)
		want = append(want, send(bad))
		send(good)
	}
	w.Run(time.Hour, 10*time.Second)
	if !slices.Equal(took, want) {
		t.Errorf("the inbox that is back took\n%v, want\n%v", took, want)
	}
	if lot, err := w.Store.CountParked(t.Context(), circuit.HostKey("mixed.example"), 100); err != nil || lot > 0 {
		t.Errorf("%d spots are left, %v", lot, err)
	}
}

// posts counts what was sent to an inbox.
func posts(w *world.World, inbox string) (n int) {
	for _, r := range w.Servers.Got() {
		if r.Inbox == inbox {
			n++
		}
	}
	return n
}
