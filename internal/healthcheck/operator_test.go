package healthcheck_test

import (
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/healthcheck"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/world"
)

// changeDown changes the state of down.example as an operator does.
func changeDown(t *testing.T, w *world.World, f func(circuit.State) circuit.State) {
	t.Helper()
	if _, _, err := circuit.Change(t.Context(), w.Store, circuit.HostKey("down.example"), f); err != nil {
		t.Fatal(err)
	}
}

// pauseDown pauses down.example until an operator ends that.
func pauseDown(t *testing.T, w *world.World) {
	t.Helper()
	changeDown(t, w, func(s circuit.State) circuit.State {
		return s.Pause(circuit.Default(), time.Time{}, "maintenance", w.Clock.Now())
	})
}

func TestWhatIsParkedForABlockedServerFails(t *testing.T) {
	w, ids := outage(t, 30)
	changeDown(t, w, func(s circuit.State) circuit.State { return s.Block(circuit.Default(), "spam", w.Clock.Now()) })
	w.Run(5*minut, time.Second)
	for _, id := range ids {
		w.Expect(id, map[string]activity.State{down: activity.Failed})
		if r := w.States(id)[down]; !strings.Contains(r.LastError, "blocked: spam") {
			t.Errorf("the record is %s, want blocked: spam", world.Brief(r))
		}
	}
	if s := state(t, w, circuit.HostKey("down.example")); s.Phase != circuit.Blocked || s.Parked {
		t.Errorf("the server is %s, want blocked and nothing parked", world.Brief(s))
	}
	w.Quiet()
}

func TestABlockOfSubdomainsEndsWhatIsParkedForThem(t *testing.T) {
	w := world.New(t, world.Options{})
	const (
		one, two = "https://one.bad.example/inbox", "https://deep.two.bad.example:8443/inbox"
		other    = "https://other.example/inbox"
	)
	inboxes := []string{one, two, other}
	for _, inbox := range inboxes {
		w.Servers.Script(activity.HostOf(inbox), world.Down)
	}
	ids := []activity.ID{w.Send(w.Activity("Create"), inboxes...)}
	ordered := w.Activity("Create")
	ordered.OrderingKey = "k"
	ids = append(ids, w.Send(ordered, one))
	w.Run(3*time.Hour, minut)
	for range 5 {
		ids = append(ids, w.Send(w.Activity("Create"), one, two))
	}
	w.Work()
	if s := state(t, w, circuit.HostKey("one.bad.example")); !s.Parked || s.CheckAt.Before(w.Clock.Now().Add(10*minut)) {
		t.Fatalf("the server is %s, want something parked and a check in 10 minutes or later", world.Brief(s))
	}
	if _, _, err := circuit.Change(t.Context(), w.Store, circuit.FamilyKey("bad.example"), func(s circuit.State) circuit.State {
		return s.Block(circuit.Default(), "spam", w.Clock.Now())
	}); err != nil {
		t.Fatal(err)
	}
	got := len(w.Servers.Got())
	p := &counting{}
	r := runner(w, p, func(c *healthcheck.Config) { c.AtOnce, c.Due = 2, 2 })
	for range 4 {
		w.Clock.Advance(minut)
		if err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.Work()
	}
	for _, id := range ids {
		for inbox, rec := range w.States(id) {
			want := activity.Failed
			if inbox == other {
				want = activity.Parked
			}
			if rec.State != want {
				t.Errorf("%s at %s is %s, want %s: %+v", id, inbox, rec.State, want, rec)
			}
		}
	}
	if n := len(w.Servers.Got()) - got; n != 0 {
		t.Errorf("%d requests after the block", n)
	}
	w.Clock.Advance(24 * time.Hour)
	p.n.Store(0)
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := p.n.Load(); n != 1 {
		t.Errorf("%d probes a day later, want one of %s", n, other)
	}
	for _, key := range []string{circuit.HostKey("one.bad.example"), circuit.HostKey("deep.two.bad.example:8443"), circuit.FamilyKey("bad.example")} {
		if s := state(t, w, key); s.Parked || !s.CheckAt.IsZero() {
			t.Errorf("something is still due: %s", world.Brief(s))
		}
	}
}

func TestABlockOfAHostEndsWhatIsParkedForItsInboxes(t *testing.T) {
	w := world.New(t, world.Options{})
	const broken, well = "https://down.example/broken", "https://down.example/inbox"
	w.Servers.Script(broken, world.Answers(500))
	var ids []activity.ID
	for range 30 {
		ids = append(ids, w.Send(w.Activity("Create"), broken))
		w.Send(w.Activity("Create"), well)
		w.Run(10*time.Second, time.Second)
	}
	w.Run(3*minut, time.Second)
	if s := state(t, w, circuit.InboxKey(broken)); !s.Parked {
		t.Fatalf("the inbox is %s, want something parked", world.Brief(s))
	}
	changeDown(t, w, func(s circuit.State) circuit.State { return s.Block(circuit.Default(), "spam", w.Clock.Now()) })
	w.Run(3*minut, time.Second)
	for _, id := range ids {
		w.Expect(id, map[string]activity.State{broken: activity.Failed})
	}
}

func TestAnOperatorsPauseHoldsUntilItIsEnded(t *testing.T) {
	w := world.New(t, world.Options{})
	pauseDown(t, w)
	var ids []activity.ID
	for range 5 {
		ids = append(ids, w.Send(w.Activity("Create"), down))
	}
	w.Run(3*24*time.Hour, minut)
	if n := len(w.Servers.Got()); n > 0 {
		t.Errorf("%d requests in the pause", n)
	}
	for _, id := range ids {
		w.Expect(id, map[string]activity.State{down: activity.Parked})
	}
	changeDown(t, w, func(s circuit.State) circuit.State { return s.Resume(circuit.Default(), w.Clock.Now()) })
	w.Run(5*minut, time.Second)
	for _, id := range ids {
		w.Expect(id, map[string]activity.State{down: activity.Delivered})
	}
}

func TestInAnEndlessPauseDeliveriesGrowTooOld(t *testing.T) {
	w := world.New(t, world.Options{})
	pauseDown(t, w)
	id := w.Send(w.Activity("Create"), down)
	w.Run(9*24*time.Hour, time.Hour)
	w.Expect(id, map[string]activity.State{down: activity.Dead})
	if len(w.DeadLetters.Deaths) != 1 {
		t.Errorf("given up: %s", world.Brief(w.DeadLetters.Deaths))
	}
}

// A pause puts off no look at what waits, so it becomes overdue though an operator, or a script,
// pauses its server each day anew.
func TestAServerThatIsPausedEachDayAnewKeepsNothingForEver(t *testing.T) {
	w := world.New(t, world.Options{})
	pauseDown(t, w)
	id := w.Send(w.Activity("Create"), down)
	for range 11 {
		w.Run(20*time.Hour, time.Hour)
		pauseDown(t, w)
	}
	w.Expect(id, map[string]activity.State{down: activity.Dead})
}
