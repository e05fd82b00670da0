package healthcheck_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/world"
)

// tried counts the POSTs of each check to each inbox of a server that passes probes and
// answers deliveries with 500.
type tried struct {
	checks, most int
	posts        map[string]int
}

func (c *tried) script(r world.Request, _ int) outcome.Outcome {
	if strings.HasPrefix(r.Inbox, "probe:") {
		c.checks++
		c.posts = map[string]int{}
		return world.Status(200)
	}
	if c.checks > 0 {
		c.posts[r.Inbox]++
		c.most = max(c.most, c.posts[r.Inbox])
	}
	return world.Status(500)
}

// Found by the simulation: from the second check on, each tried the only head of an ordered
// group three times.
func TestACheckTriesTheHeadOfAnOrderedGroupOnce(t *testing.T) {
	for _, inboxes := range []int{1, 2} {
		w := world.New(t, world.Options{})
		var c tried
		w.Servers.Script("a.example", c.script)
		for i := range inboxes {
			for range 2 {
				a := w.Activity("Create")
				a.OrderingKey = fmt.Sprint("line ", i)
				w.Send(a, fmt.Sprintf("https://a.example/%d/inbox", i))
			}
		}
		w.Run(3*24*time.Hour, 10*time.Second)
		if c.most != 1 || c.checks < 7 {
			t.Errorf("%d inboxes: up to %d POSTs to one in each of %d checks", inboxes, c.most, c.checks)
		}
	}
}

func TestACheckTriesAnInboxForWhichManyWaitOnce(t *testing.T) {
	w := world.New(t, world.Options{})
	w.Servers.Script("a.example", world.Down)
	for i := range 70 {
		inbox := "https://a.example/inbox"
		if i == 35 {
			inbox = "https://a.example/other"
		}
		w.Send(w.Activity("Create"), inbox)
	}
	w.Run(50*time.Second, time.Second)
	var c tried
	w.Servers.Script("a.example", c.script)
	w.Run(2*24*time.Hour, 10*time.Second)
	if c.most != 1 || c.checks < 6 {
		t.Errorf("up to %d POSTs to one inbox in each of %d checks", c.most, c.checks)
	}
}

// An inbox behind more deliveries to another than a check looks at gets a trial at one of the next
// quick checks.
func TestAnInboxBehindManyDeliveriesToAnotherIsFound(t *testing.T) {
	const fine = "https://a.example/fine"
	w := world.New(t, world.Options{})
	w.Servers.Script("a.example", world.Down)
	for range 500 {
		w.Send(w.Activity("Create"), "https://a.example/inbox")
	}
	id := w.Send(w.Activity("Create"), fine)
	w.Run(50*time.Second, time.Second)
	var c tried
	w.Servers.Script("a.example", c.script)
	w.Servers.Script(fine, world.Answers(202))
	w.Run(2*time.Hour, 10*time.Second)
	w.Expect(id, map[string]activity.State{fine: activity.Delivered})
}

func TestATrialThatFailsOnABrokenInboxIsTriedOnAnother(t *testing.T) {
	w := world.New(t, world.Options{})
	const bad, good = "https://mixed.example/a-bad", "https://mixed.example/good"
	w.Servers.Script("mixed.example", world.Down)
	var ids []activity.ID
	for range 4 {
		ids = append(ids, w.Send(w.Activity("Create"), bad))
	}
	ids = append(ids, w.Send(w.Activity("Create"), good))
	w.Run(3*minut, time.Second)
	w.Servers.Script("mixed.example", nil)
	w.Servers.Script(bad, world.Answers(500))
	w.Run(15*minut, time.Second)
	w.Expect(ids[4], map[string]activity.State{good: activity.Delivered})
	if s := state(t, w, circuit.HostKey("mixed.example")); !s.Accepts(w.Clock.Now()) {
		t.Errorf("the host is held back by one inbox: %s", world.Brief(s))
	}
}

// Found by the simulation: an inbox that resets connections was
// tried first at every check, and held its whole server until it was given up.
func TestAnInboxThatBreaksConnectionsHoldsItsServerForOneCheckOnly(t *testing.T) {
	for name, ordering := range map[string]string{"ordered": "actor", "unordered": ""} {
		t.Run(name, func(t *testing.T) {
			w := world.New(t, world.Options{})
			w.Servers.Script("https://a.example/broken", world.Down)
			a := w.Activity("Create")
			a.OrderingKey = ordering
			w.Send(a, "https://a.example/broken")
			w.Run(2*time.Minute, time.Second)
			fine := w.Send(w.Activity("Create"), "https://a.example/fine")
			w.Run(2*time.Hour, time.Minute)
			w.Expect(fine, map[string]activity.State{"https://a.example/fine": activity.Delivered})
		})
	}
}

// Found by the simulation: when an inbox had used up the quick checks, a delivery to
// another inbox of the server waited for the daily check.
func TestADeliveryToAnotherInboxBringsTheDailyCheckForward(t *testing.T) {
	w := world.New(t, world.Options{})
	w.Servers.Script("https://a.example/broken", world.Down)
	w.Send(w.Activity("Create"), "https://a.example/broken")
	w.Run(4*time.Hour, minut)
	key := circuit.HostKey("a.example")
	if s := state(t, w, key); s.CheckAt.Sub(w.Now()) < 12*time.Hour {
		t.Fatalf("the checks are not daily yet: %s", world.Brief(s))
	}
	fine := w.Send(w.Activity("Create"), "https://a.example/fine")
	w.Run(10*minut, time.Second)
	w.Expect(fine, map[string]activity.State{"https://a.example/fine": activity.Delivered})
}

// Found by the simulation: one inbox answered 500 and another reset connections, which
// ended each check before an inbox that takes everything had its trial.
func TestATrialThatIsResetIsTriedOnAnotherInbox(t *testing.T) {
	for n := range 8 { // who comes first in the lot depends on the activities' ids
		w := world.New(t, world.Options{})
		w.Clock.Advance(time.Duration(n) * 37 * time.Second)
		w.Servers.Script("https://a.example/reset", func(world.Request, int) outcome.Outcome {
			return outcome.Outcome{Class: outcome.Retry, Reason: outcome.ConnReset, Err: "connection reset"}
		})
		w.Servers.Script("https://a.example/500", world.Answers(500))
		w.Send(w.Activity("Create"), "https://a.example/reset")
		w.Run(4*time.Hour, minut)
		w.Send(w.Activity("Create"), "https://a.example/500")
		fine := w.Send(w.Activity("Create"), "https://a.example/fine")
		w.Run(15*minut, time.Second)
		w.Expect(fine, map[string]activity.State{"https://a.example/fine": activity.Delivered})
	}
}

// Found by the simulation: while one inbox held its server, another with a circuit of its own had
// no trial until the first was given up.
func TestAnInboxThatIsWellIsFoundWhileAnotherHoldsTheServer(t *testing.T) {
	w := world.New(t, world.Options{})
	const sick, broken = "https://a.example/sick", "https://a.example/broken"
	w.Servers.Script(sick, world.Answers(500))
	ids := []activity.ID{}
	for range 4 {
		w.Send(w.Activity("Create"), "https://a.example/inbox")
		ids = append(ids, w.Send(w.Activity("Create"), sick))
	}
	w.Run(time.Hour, time.Second)
	if s := state(t, w, circuit.InboxKey(sick)); !s.Parked {
		t.Fatalf("the inbox has no circuit of its own: %s", world.Brief(s))
	}
	w.Servers.Script(broken, world.Down)
	w.Send(w.Activity("Create"), broken)
	w.Run(24*time.Hour, minut)
	w.Servers.Script(sick, nil)
	w.Run(2*24*time.Hour+2*time.Hour, minut)
	for _, id := range ids {
		w.Expect(id, map[string]activity.State{sick: activity.Delivered})
	}
}

// TestManyInboxesThatTakeNothingBringFewChecksForward: a server that answers probes, and of which
// each quarter of an hour has a new inbox that takes nothing, costs no more than its budget a day,
// probes of checks for these inboxes included, also when it is exhausted.
func TestManyInboxesThatTakeNothingBringFewChecksForward(t *testing.T) {
	for name, answers := range map[string][]world.Script{
		"500":  {world.Answers(500)},
		"down": {world.Down}, // such a check makes one trial for its probe
		"both": {world.Answers(500), world.Down},
	} {
		t.Run(name, func(t *testing.T) {
			w := world.New(t, world.Options{})
			rules, probes := circuit.Default(), 0
			w.Servers.Script("a.example", func(world.Request, int) outcome.Outcome {
				probes++
				return world.Status(200)
			})
			for day := range 9 {
				before := len(w.Servers.Got())
				probes = 0
				for n := range 24 * 4 {
					page := fmt.Sprintf("https://a.example/%d/%d", day, n)
					w.Servers.Script(page, answers[n%len(answers)])
					w.Send(w.Activity("Create"), page)
					w.Run(15*minut, minut)
				}
				if got := len(w.Servers.Got()) - before; got+probes > rules.Budget+rules.Checks {
					t.Errorf("%d requests to inboxes and %d probes on day %d", got, probes, day)
				}
			}
		})
	}
}

// Found by the simulation: all deliveries to a server waited for one inbox, which had a circuit of
// its own. The quick checks of the server were used up, and no daily one followed, as nothing
// waited for the server itself. They were given up although the server was back.
func TestAnInboxWithACircuitOfItsOwnHasItsServerCheckedDaily(t *testing.T) {
	w := world.New(t, world.Options{})
	const inbox = "https://a.example/u2"
	w.Send(w.Activity("Create"), "https://a.example/u1")
	w.Work()
	w.Run(20*time.Hour, minut)
	w.Servers.Script("a.example", func(world.Request, int) outcome.Outcome {
		return outcome.Outcome{Class: outcome.Retry, Reason: outcome.ConnReset, Err: "connection reset"}
	})
	id := w.Send(w.Activity("Create"), inbox)
	w.Run(6*time.Hour, minut)
	if host, one := state(t, w, circuit.HostKey("a.example")), state(t, w, circuit.InboxKey(inbox)); host.Accepts(w.Now()) || !one.Parked {
		t.Fatalf("the circuits are not open: %s, %s", world.Brief(host), world.Brief(one))
	}
	w.Servers.Script("a.example", nil)
	w.Run(25*time.Hour, minut)
	w.Expect(id, map[string]activity.State{inbox: activity.Delivered})
}
