package deadletter_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/deliver"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/engine/queue"
	"fedpost/internal/protocol/retry"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/engines"
	"fedpost/internal/testkit/faults"
	"fedpost/internal/testkit/world"
)

const (
	oneDay    = 24 * time.Hour
	downInbox = "https://down.example/inbox"
)

var downKey = circuit.HostKey("down.example")

// comeback is a world in which what died for a server that was down is revived.
type comeback struct {
	*world.World
	// order lists what down.example has accepted.
	order []activity.ID
}

// newComeback makes a world in which down.example is down but for some times.
func newComeback(t *testing.T, o world.Options, up ...[2]time.Duration) *comeback {
	t.Helper()
	o.Afterlife = true
	if o.Rules.Revive == 0 {
		o.Rules.Revive = 30 * oneDay
	}
	o.Limits = deliver.Limits{Messages: 1, InFlight: 1}
	w := &comeback{World: world.New(t, o)}
	w.BatchSize = 1
	w.Servers.Spare()
	w.Servers.Script("down.example", func(r world.Request, n int) outcome.Outcome {
		for _, span := range up {
			if !r.At.Before(world.Start.Add(span[0])) && r.At.Before(world.Start.Add(span[1])) {
				if r.Activity.ID != "" { // a delivery, not a probe
					w.order = append(w.order, r.Activity.ID)
				}
				return world.Status(202)
			}
		}
		return world.Down(r, n)
	})
	return w
}

// shortLife is the usual policy, with 20 minutes for a delivery to wait.
func shortLife() retry.Policy {
	p := retry.ActivityPub()
	p.GiveUp = 20 * time.Minute
	return p
}

func for60(from time.Duration) [2]time.Duration { return [2]time.Duration{from, from + 60*oneDay} }

func (w *comeback) states(ids []activity.ID) map[activity.State]int {
	all := map[activity.State]int{}
	for _, id := range ids {
		for _, r := range w.States(id) {
			all[r.State]++
		}
	}
	return all
}

// letters lists the dead letters that the table has.
func (w *comeback) letters() (ls []deadletter.DeadLetter) {
	w.T.Helper()
	for cursor := ""; ; {
		page, next, err := w.Raw().DeadLetters(context.Background(), deadletter.Filter{Host: "down.example"}, cursor, 100)
		if err != nil {
			w.T.Fatal(err)
		}
		ls = append(ls, page...)
		if cursor = next; next == "" {
			return ls
		}
	}
}

func (w *comeback) server() circuit.State {
	w.T.Helper()
	s, err := circuit.Load(context.Background(), w.Raw(), downKey)
	if err != nil {
		w.T.Fatal(err)
	}
	return s
}

func (w *comeback) send(n int) (ids []activity.ID) {
	for range n {
		ids = append(ids, w.Send(w.Activity("Create"), downInbox))
	}
	return ids
}

func TestWhatDiedForAServerThatComesBackIsDeliveredOnce(t *testing.T) {
	w := newComeback(t, world.Options{}, for60(20*oneDay))
	ids := w.send(130)
	w.Run(9*oneDay, time.Minute)
	if got := w.states(ids); got[activity.Dead] != len(ids) || len(w.letters()) != len(ids) {
		t.Fatalf("after 9 days: %v, %d dead letters", got, len(w.letters()))
	}
	s := w.server()
	if s.Phase != circuit.Exhausted || !s.Parked || !s.ReviveUntil.After(world.Start.Add(37*oneDay)) || s.CheckAt.After(w.Now().Add(oneDay)) {
		t.Errorf("the server is %+v", s)
	}
	w.Run(12*oneDay, time.Minute)
	if got := w.states(ids); got[activity.Delivered] != len(ids) || len(w.letters()) != 0 {
		t.Errorf("after the server was back: %v, %d dead letters", got, len(w.letters()))
	}
	slices.Sort(w.order)
	if n := len(slices.Compact(slices.Clone(w.order))); n != len(ids) || len(w.order) != len(ids) {
		t.Errorf("%d accepted, %d of them different, want %d", len(w.order), n, len(ids))
	}
	if s := w.server(); s.Parked || !s.ReviveUntil.IsZero() || !s.CheckAt.IsZero() || s.Phase != circuit.Healthy {
		t.Errorf("in the end the server is %+v", s)
	}
}

func TestRevivedDeliveriesAreReleasedLikeParkedOnes(t *testing.T) {
	w := newComeback(t, world.Options{}, for60(10*oneDay))
	w.send(200)
	w.Run(10*oneDay, time.Minute)
	most, last := 0, 0
	begun := 0
	for minute := 0; minute < 36*60 && len(w.order) < 200; minute++ {
		w.Run(time.Minute, 10*time.Second)
		most = max(most, len(w.order)-last)
		last = len(w.order)
		if last > 0 {
			if begun++; begun == 1 && last > 2 {
				t.Errorf("%d in the first minute, before anything was known of the server", last)
			}
		}
	}
	// 1 on trial, then 10, 50, and the rest; a release is spread over a minute.
	if len(w.order) != 200 || begun < 4 || most > 160 {
		t.Errorf("%d delivered in %d minutes, at most %d in one", len(w.order), begun, most)
	}
}

func TestOrderedDeliveriesComeBackInOrderAndBeforeYoungerOnes(t *testing.T) {
	w := newComeback(t, world.Options{}, for60(12*oneDay))
	var ids []activity.ID
	for day := range 11 {
		for range 3 {
			a := w.Activity("Update")
			a.OrderingKey = "actor"
			ids = append(ids, w.Send(a, downInbox))
			w.Run(time.Hour, time.Minute)
		}
		w.Run(world.Start.Add(time.Duration(day+1)*oneDay).Sub(w.Now()), time.Minute)
	}
	if got := w.states(ids); got[activity.Dead] < 9 || got[activity.Dead] > 15 {
		t.Fatalf("after 11 days: %v", got)
	}
	w.Run(4*oneDay, time.Minute)
	if got := w.states(ids); got[activity.Delivered] != len(ids) {
		t.Errorf("after the server was back: %v", got)
	}
	if !slices.Equal(w.order, ids) {
		t.Errorf("delivered in the order\n%v, want\n%v", w.order, ids)
	}
}

// TestOrderedDeliveriesStayDeadIfYoungerOnesMayHaveGone: an operator closes the circuit,
// so no trial comes before the younger ones.
func TestOrderedDeliveriesStayDeadIfYoungerOnesMayHaveGone(t *testing.T) {
	w := newComeback(t, world.Options{}, [2]time.Duration{9 * oneDay, 9*oneDay + time.Hour}, for60(19*oneDay))
	ordered := func() activity.ID {
		a := w.Activity("Update")
		a.OrderingKey = "actor"
		return w.Send(a, downInbox)
	}
	old := ordered()
	loose := w.send(6)
	w.Run(9*oneDay, time.Minute)
	if _, _, err := circuit.Change(t.Context(), w.Raw(), downKey, func(s circuit.State) circuit.State {
		return s.Resume(circuit.Default(), w.Now())
	}); err != nil {
		t.Fatal(err)
	}
	young := ordered()
	w.Run(time.Hour, time.Minute)
	w.Expect(young, map[string]activity.State{downInbox: activity.Delivered})
	w.Expect(loose[0], map[string]activity.State{downInbox: activity.Delivered})
	// Another outage, in which others die, does not bring the old one back.
	more := append(w.send(6), ordered())
	w.Run(12*oneDay, time.Minute)
	w.Expect(old, map[string]activity.State{downInbox: activity.Dead})
	if got := w.states(more); got[activity.Delivered] != len(more) {
		t.Errorf("the others are %v", got)
	}
}

func TestAServerThatComesBackTooLateGetsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		within, back time.Duration
	}{
		"later than the time for revival": {10 * oneDay, 20 * oneDay},
		"never":                           {-1, 9 * oneDay},
	} {
		t.Run(name, func(t *testing.T) {
			o := world.Options{}
			o.Rules.Revive = c.within
			if c.within < 0 {
				o.Rules.Revive = time.Nanosecond // nothing dies and comes back so soon
			}
			w := newComeback(t, o, for60(c.back))
			ids := w.send(8)
			w.Run(c.back+2*oneDay, time.Minute)
			if got := w.states(ids); got[activity.Dead] != len(ids) || len(w.order) != 0 {
				t.Errorf("%v, %d accepted", got, len(w.order))
			}
			if s := w.server(); s.Parked || !s.CheckAt.IsZero() {
				t.Errorf("the server is still looked at: %+v", s)
			}
		})
	}
}

func TestWithoutRevivalNothingIsWrittenForIt(t *testing.T) {
	w := newComeback(t, world.Options{}, for60(9*oneDay))
	config := w.Config()
	config.Rules.Revive = 0
	w.Deliver = deliver.New(config)
	ids := w.send(8)
	w.Run(12*oneDay, time.Minute)
	if got := w.states(ids); got[activity.Dead] != len(ids) || !w.server().ReviveUntil.IsZero() {
		t.Errorf("states %v, server %+v; want all %d dead and no return awaited", got, w.server(), len(ids))
	}
}

func TestADeliveryDiesForGoodWhenItsTimeForRevivalIsOver(t *testing.T) {
	w := newComeback(t, world.Options{})
	probes, tries := 0, 0
	w.Servers.Script("down.example", func(r world.Request, n int) outcome.Outcome {
		if r.Activity.ID == "" && r.At.After(world.Start.Add(8*oneDay)) {
			probes++
			return world.Status(200) // the host answers, and takes nothing
		}
		tries++
		return world.Down(r, n)
	})
	ids := w.send(8)
	w.Run(9*oneDay, time.Minute)
	if got := w.states(ids); got[activity.Parked] != 1 || len(w.letters()) != len(ids)-1 {
		t.Errorf("after 9 days %v, %d dead letters", got, len(w.letters()))
	}
	w.Run(50*oneDay-9*oneDay, time.Minute)
	if got := w.states(ids); got[activity.Dead] != len(ids) || len(w.letters()) != len(ids) {
		t.Errorf("after 50 days %v, %d dead letters", got, len(w.letters()))
	}
	if s := w.server(); !s.CheckAt.IsZero() || s.Parked {
		t.Errorf("the server is still looked at: %+v", s)
	}
	// Five quick tries, six quick checks, then a probe and a trial a day.
	if probes > 50 || tries > 100 {
		t.Errorf("%d probes, %d deliveries tried", probes, tries)
	}
}

func TestWhatIsCancelledOrRetriedIsNotRevivedBeside(t *testing.T) {
	w := newComeback(t, world.Options{}, for60(12*oneDay))
	ids := w.send(10)
	w.Run(9*oneDay, time.Minute)
	if err := w.Raw().CancelActivity(t.Context(), ids[0]); err != nil {
		t.Fatal(err)
	}
	reviver := deadletter.Reviver{
		Store:  deadletter.Current{Store: w.Raw(), Ledger: w.Raw()},
		Queues: func(n queue.Name) queue.Sender { return w.Engine.Queue(n) }, Now: w.Now,
	}
	// A retry on request waits for the server in the lot, as any delivery does.
	if n, _, err := reviver.Revive(t.Context(), deadletter.Filter{Activity: ids[1]}, "", 1); n != 1 || err != nil {
		t.Fatalf("%d revived, error %v; want 1", n, err)
	}
	// Another one was delivered although its dead letter is still there.
	letters := w.letters()
	w.Run(2*time.Hour, time.Minute)
	if err := w.Raw().AddDeadLetters(t.Context(), letters); err != nil {
		t.Fatal(err)
	}
	w.Run(6*oneDay, time.Minute)
	for _, id := range ids[1:] {
		if n := w.Servers.Accepted()[id][downInbox]; n != 1 {
			t.Errorf("%s was accepted %d times", id, n)
		}
	}
	if n := w.Servers.Accepted()[ids[0]][downInbox]; n != 0 {
		t.Errorf("what was cancelled was accepted %d times", n)
	}
}

func TestABlockEndsTheWaitForRevival(t *testing.T) {
	w := newComeback(t, world.Options{}, for60(9*oneDay))
	ids := w.send(8)
	w.Run(8*oneDay, time.Minute)
	change := func(f func(circuit.State) circuit.State) {
		if _, _, err := circuit.Change(t.Context(), w.Raw(), downKey, f); err != nil {
			t.Fatal(err)
		}
	}
	change(func(s circuit.State) circuit.State { return s.Block(circuit.Default(), "spam", w.Now()) })
	w.Run(2*oneDay, time.Minute)
	if s := w.server(); s.Parked || !s.CheckAt.IsZero() || !s.ReviveUntil.IsZero() {
		t.Errorf("blocked: %+v", s)
	}
	change(func(s circuit.State) circuit.State { return s.Unblock(circuit.Default(), w.Now()) })
	w.Run(2*oneDay, time.Minute)
	if got := w.states(ids); got[activity.Dead] != len(ids) {
		t.Errorf("states %v, want all %d dead", got, len(ids))
	}
}

// TestNothingIsLostNorSentTwiceWhateverCallFailsWhileAServerComesBack breaks every call of
// a death and a revival.
func TestNothingIsLostNorSentTwiceWhateverCallFailsWhileAServerComesBack(t *testing.T) {
	for name, key := range map[string]string{"unordered": "", "ordered": "actor"} {
		t.Run(name, func(t *testing.T) {
			sweep, n := engines.Sweep, 1
			if key != "" {
				sweep, n = engines.SweepOrdered, 2
			}
			sweep(t, func(t *testing.T, e engines.Engine, p *faults.Plan) {
				o := world.Options{Engine: e, Plan: p}
				o.Rules.OpenAfter, o.Rules.Checks, o.Rules.GiveUp, o.Rules.CheckSlow = 1, 1, 20*time.Minute, 20*time.Minute
				o.Policy = shortLife()
				w := newComeback(t, o, for60(time.Hour))
				var ids []activity.ID
				for i := range n {
					a := w.Activity(fmt.Sprint("Create", i))
					a.OrderingKey = key
					ids = append(ids, w.Send(a, downInbox))
					w.Run(time.Minute, 30*time.Second)
				}
				w.Run(5*time.Hour, time.Minute)
				if got := w.states(ids); got[activity.Delivered] != len(ids) {
					t.Errorf("states %v, %d dead letters, %+v", got, len(w.letters()), w.server())
				}
				if order := slices.Compact(w.order); key != "" && !slices.Equal(order, ids) {
					t.Errorf("delivered in the order %v, want %v", order, ids)
				}
				w.Doubles()
			})
		})
	}
}
