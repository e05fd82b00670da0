package deliver_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/ledger"
	"fedpost/internal/protocol"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/long"
	"fedpost/internal/testkit/world"
)

// TestA401IsTriedAgain: a server that cannot fetch the key answers 401 for as
// long as that lasts. For a minute it costs a few quick tries, for two days the
// delivery is parked.
func TestA401IsTriedAgain(t *testing.T) {
	for name, down := range map[string]time.Duration{"a minute": time.Minute, "two days": 2 * day} {
		t.Run(name, func(t *testing.T) {
			w := world.New(t, world.Options{})
			const inbox = "https://m.example/inbox"
			w.Servers.Script("m.example", func(r world.Request, _ int) outcome.Outcome {
				if r.At.Sub(world.Start) < down {
					return world.Status(401)
				}
				return world.Status(202)
			})
			a := w.Activity("Create")
			a.KeyID = "https://us.example/u#main-key"
			id := w.Send(a, inbox)
			w.Run(down+25*time.Hour, time.Second)
			w.Expect(id, map[string]activity.State{inbox: activity.Delivered})
			if n, most := len(w.Servers.Got()), 30; n > most {
				t.Errorf("%d POSTs and probes, at most %d", n, most)
			}
		})
	}
}

// TestA401HoldsUpNoOtherKey: one actor's key cannot be fetched for days, and
// all other actors' deliveries to the same shared inbox go out at once.
func TestA401HoldsUpNoOtherKey(t *testing.T) {
	w := world.New(t, world.Options{})
	const inbox, bad, good = "https://m.example/inbox", "https://us.example/gone#key", "https://us.example/u#key"
	posts := 0
	w.Servers.Script("m.example", world.OneByOne(func(r world.Request, _ int) outcome.Outcome {
		if r.Activity.KeyID == bad {
			posts++
			return world.Status(401)
		}
		return world.Status(202)
	}))
	send := func(key string) activity.ID {
		a := w.Activity("Create")
		a.KeyID = key
		return w.Send(a, inbox)
	}
	for range 48 {
		send(bad)
		w.Run(15*time.Minute, time.Second)
		id := send(good)
		w.Work()
		w.Expect(id, map[string]activity.State{inbox: activity.Delivered})
		w.Run(15*time.Minute, time.Second)
	}
	if posts > 50 {
		t.Errorf("%d POSTs in a day to an inbox that verifies none of them, at most 50", posts)
	}
	if s := phase(t, w, circuit.InboxKey(inbox)); s.Phase != circuit.Healthy {
		t.Errorf("the inbox is %s for all", s.Phase)
	}
}

// TestAKeyThatAHostRefusesHoldsUpNoOtherKeyThere: one actor's key cannot be fetched, whichever
// inbox of the host it is used for. The first delivery of another actor, who has never sent
// anything there, goes at once.
func TestAKeyThatAHostRefusesHoldsUpNoOtherKeyThere(t *testing.T) {
	w := world.New(t, world.Options{})
	const bad, good, host = "https://us.example/gone#key", "https://us.example/u#key", "https://m.example/"
	posts, comesBack := 0, 3*day
	w.Servers.Script("m.example", world.OneByOne(func(r world.Request, _ int) outcome.Outcome {
		if r.Activity.KeyID == bad && r.At.Sub(world.Start) < comesBack {
			posts += 2
			o := world.Status(401)
			o.Requests = 2 // one in each signature form
			return o
		}
		return world.Status(202)
	}))
	send := func(key string, inboxes ...string) activity.ID {
		a := w.Activity("Create")
		a.KeyID = key
		return w.Send(a, inboxes...)
	}
	var many []string
	for n := range 40 {
		many = append(many, fmt.Sprint(host, n))
	}
	var waiting []activity.ID
	for range 3 {
		waiting = append(waiting, send(bad, many...))
		w.Run(6*time.Hour, time.Second)
	}
	if t.Logf("%d posts", posts); posts > 50 {
		t.Errorf("%d POSTs in a day to a host that verifies none of them, at most 50", posts)
	}
	w.Expect(waiting[0], map[string]activity.State{many[0]: activity.Parked})
	if s := phase(t, w, circuit.HostKey("m.example")); s.Phase != circuit.Healthy {
		t.Errorf("the host is %s for all keys: %s", s.Phase, s.Why)
	}
	id := send(good, host+"new")
	w.Work()
	w.Expect(id, map[string]activity.State{host + "new": activity.Delivered})
	w.Run(comesBack+25*time.Hour-w.Now().Sub(world.Start), time.Minute)
	for _, id := range waiting {
		for _, inbox := range many {
			w.Expect(id, map[string]activity.State{inbox: activity.Delivered})
		}
	}
}

// After three inboxes have refused a key, each check of the host and the key tries another inbox,
// also if the one that accepted other keys last refuses this one, too.
func TestEachCheckOfAKeyTriesAnotherInbox(t *testing.T) {
	w := world.New(t, world.Options{})
	const key, takes = "https://us.example/u#key", "https://m.example/takes"
	var refuse []string
	for n := range 4 {
		refuse = append(refuse, fmt.Sprint("https://m.example/", n))
	}
	w.Servers.Script("m.example", func(r world.Request, _ int) outcome.Outcome {
		if r.Activity.KeyID == key && r.Inbox != takes {
			return world.Status(401)
		}
		return world.Status(202)
	})
	send := func(key, inbox string) activity.ID {
		a := w.Activity("Create")
		a.KeyID = key
		id := w.Send(a, inbox)
		w.Work()
		return id
	}
	send("https://us.example/other#key", refuse[3])
	for _, inbox := range refuse {
		send(key, inbox)
	}
	id := send(key, takes)
	w.Expect(id, map[string]activity.State{takes: activity.Parked})
	w.Run(10*time.Minute, time.Second)
	w.Expect(id, map[string]activity.State{takes: activity.Delivered})
}

// TestManyDeliveriesToAnInboxThatVerifiesNoneCostFewPosts, whether they come at once, are
// ordered by many keys, or both. An attempt is up to two POSTs, one for each signature form.
func TestManyDeliveriesToAnInboxThatVerifiesNoneCostFewPosts(t *testing.T) {
	long.NotUnderRace(t)
	t.Parallel()
	for name, key := range map[string]func(int) string{
		"unordered":      func(int) string { return "" },
		"ordered":        func(i int) string { return fmt.Sprint("thread ", i) },
		"ordered or not": func(i int) string { return strings.Repeat(fmt.Sprint("thread ", i), i%2) },
	} {
		t.Run(name, func(t *testing.T) {
			w := world.New(t, world.Options{})
			const inbox, comesBack = "https://m.example/inbox", 5 * day
			w.Servers.Script("m.example", func(r world.Request, _ int) outcome.Outcome {
				if r.At.Sub(world.Start) < comesBack || strings.HasPrefix(r.Inbox, "probe:") {
					return world.Status(401)
				}
				return world.Status(202)
			})
			var ids []activity.ID
			for i := range 40 {
				a := w.Activity("Create")
				a.KeyID, a.OrderingKey = "https://us.example/u#key", key(i)
				ids = append(ids, w.Send(a, inbox))
			}
			for day1 := range 5 {
				before := len(w.Servers.Got())
				w.Run(day, time.Second)
				attempts := len(w.Servers.Got()) - before
				t.Logf("%d attempts on day %d", attempts, day1+1)
				if attempts > 25 {
					t.Errorf("%d attempts on day %d at an inbox that verifies none", attempts, day1+1)
				}
			}
			w.Run(25*time.Hour, time.Second)
			for _, id := range ids {
				w.Expect(id, map[string]activity.State{inbox: activity.Delivered})
			}
		})
	}
}

// TestOrderedDeliveriesTryAnUnprovenInboxOneByOne: after each check all heads of 30
// ordered groups come at once.
// Found by the simulation: while deliveries to a host wait for its rate limit, the trial of
// an inbox that answers 401 was parked among them, which closed the inbox's circuit. It was
// opened anew by the next attempt, every few minutes.
func TestATrialOfAnInboxNeedsNoSlotUnderTheLimitOfItsHost(t *testing.T) {
	long.NotUnderRace(t)
	t.Parallel()
	const good, bad = "https://slow.example/good", "https://slow.example/bad"
	w := world.New(t, world.Options{})
	limitTo(t, w, "slow.example", 2)
	w.Servers.Script(bad, func(world.Request, int) outcome.Outcome {
		return outcome.Outcome{Class: outcome.Unverified, Status: 401, Err: "answered 401"}
	})
	for range 3 {
		w.Send(w.Activity("Create"), bad)
	}
	for n := range 240 {
		for range 2 + 4/(n+1) { // always a few more than go
			w.Send(w.Activity("Create"), good)
		}
		w.Run(time.Minute, 10*time.Second)
	}
	posts := 0
	for _, r := range w.Servers.Got() {
		if r.Inbox == bad {
			posts++
		}
	}
	t.Logf("%d posts", posts)
	if posts > 30 {
		t.Errorf("%d requests in 4 hours to an inbox that takes none", posts)
	}
}

func TestOrderedDeliveriesTryAnUnprovenInboxOneByOne(t *testing.T) {
	long.NotUnderRace(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var attempts atomic.Int32
		w := world.New(t, world.Options{Now: time.Now, Protocol: world.SenderFunc(func(context.Context, activity.Activity) protocol.Attempt {
			return func(context.Context, activity.Target, int) outcome.Outcome {
				attempts.Add(1)
				time.Sleep(200 * time.Millisecond) // virtual
				return world.Status(401)
			}
		})})
		for i := range 30 {
			a := w.Activity("Create")
			a.KeyID, a.OrderingKey = "https://us.example/u#key", fmt.Sprint("thread ", i)
			w.Send(a, "https://m.example/inbox")
		}
		for range 6 * 60 * 4 {
			w.Work()
			if err := w.Checks.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(15 * time.Second) // virtual
		}
		// Eight attempts at once, twice, before the circuit opens; one after each of the
		// six quick checks.
		if n := attempts.Load(); n > 25 {
			t.Errorf("%d attempts in 6 hours at an inbox that verifies none", n)
		}
	})
}

// TestADeliveryParkedAfterA401SaysWhenItsInboxIsLookedAt: it lies in the lot of its
// inbox and signing key, which has checks of its own while the host accepts others.
func TestADeliveryParkedAfterA401SaysWhenItsInboxIsLookedAt(t *testing.T) {
	w := world.New(t, world.Options{})
	const inbox = "https://m.example/inbox"
	w.Servers.Script("m.example", func(world.Request, int) outcome.Outcome { return world.Status(401) })
	a := w.Activity("Create")
	a.KeyID = "https://us.example/u#main-key"
	id := w.Send(a, inbox)
	w.Run(time.Hour, time.Second)
	v, err := ledger.ViewOf(t.Context(), w.Store, id, "", 10, w.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := ledger.Explain(t.Context(), w.Store, v.Recipients, w.Now()); err != nil {
		t.Fatal(err)
	}
	r := v.Recipients[0]
	if in := r.NextAttemptAt.Sub(w.Now()); r.State != activity.Parked || !strings.HasPrefix(r.WaitsFor, circuit.InboxKey(inbox)+"#key-") || in <= 0 || in > day {
		t.Errorf("%s, waits for %q, looked at in %s", r.State, r.WaitsFor, in)
	}
}

// TestA400IsTriedAFewTimes: Lemmy answers 400 while it cannot fetch the actor.
func TestA400IsTriedAFewTimes(t *testing.T) {
	for _, c := range []struct {
		refusals, tries int
		want            activity.State
	}{{1, 2, activity.Delivered}, {2, 3, activity.Delivered}, {1000, 3, activity.Failed}} {
		t.Run(fmt.Sprint(c.refusals), func(t *testing.T) {
			w := world.New(t, world.Options{})
			w.Servers.Script("lemmy.example", world.Then(c.refusals, world.Answers(400), nil))
			id := w.Send(w.Activity("Create"), "https://lemmy.example/inbox")
			w.Run(10*time.Minute, time.Second)
			w.Expect(id, map[string]activity.State{"https://lemmy.example/inbox": c.want})
			if r := w.States(id)["https://lemmy.example/inbox"]; r.Attempts != c.tries {
				t.Errorf("%d attempts, want %d", r.Attempts, c.tries)
			}
		})
	}
}

// TestTheLast400OfADeliveryIsNotInVain: it ends the delivery, so it costs nothing of the budget
// of the host, which would end the others of these deliveries days later.
func TestTheLast400OfADeliveryIsNotInVain(t *testing.T) {
	w := world.New(t, world.Options{})
	w.Servers.Script("lemmy.example", world.Answers(400))
	const n = 12 // in vain twice each: too few to open the circuit
	id := w.Send(w.Activity("Create"), inboxesAt("lemmy.example", n)...)
	w.Run(10*time.Minute, time.Second)
	for inbox, r := range w.States(id) {
		if r.State != activity.Failed || r.Attempts != 3 {
			t.Errorf("%s: %s after %d attempts", inbox, r.State, r.Attempts)
		}
	}
	if got := phase(t, w, circuit.HostKey("lemmy.example")).Vain; got != 2*n {
		t.Errorf("%d requests in vain, want %d", got, 2*n)
	}
}

// TestA403AndA501HoldUpNoNeighbour: an inbox that refuses a hundred activities for good gets
// each once, and its host stays healthy: other inboxes there get theirs at once.
func TestA403AndA501HoldUpNoNeighbour(t *testing.T) {
	for _, status := range []int{403, 501} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			w := world.New(t, world.Options{})
			const refuses, takes = "https://m.example/refuses", "https://m.example/takes"
			w.Servers.Script("m.example", func(r world.Request, _ int) outcome.Outcome {
				if r.Inbox == refuses {
					return world.Status(status)
				}
				return world.Status(202)
			})
			for range 100 {
				id := w.Send(w.Activity("Create"), refuses, takes)
				w.Work()
				w.Expect(id, map[string]activity.State{refuses: activity.Failed, takes: activity.Delivered})
			}
			for _, key := range []string{circuit.HostKey("m.example"), circuit.InboxKey(refuses)} {
				if s := phase(t, w, key); s.Phase != circuit.Healthy {
					t.Errorf("%s is %s", key, s.Phase)
				}
			}
			w.Run(day, time.Minute)
			if n := len(w.Servers.Got()); n != 200 {
				t.Errorf("%d requests for 200 deliveries", n)
			}
		})
	}
}
