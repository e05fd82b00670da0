package parking_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/sqlite"
	"fedpost/internal/message"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
	"fedpost/internal/store"
)

var (
	now   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	rules = circuit.Default()
	key   = circuit.HostKey("a.example")
)

type world struct {
	*parking.Lot
	t      *testing.T
	engine *sqlite.Engine
	store  *store.Store
	random float64
}

func newWorld(t *testing.T) *world {
	t.Helper()
	clock := func() time.Time { return now }
	e, err := sqlite.Open(t.Context(), sqlite.Memory, sqlite.Options{Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{t: t, engine: e, store: store.New(e.Table(), clock), random: 0.5}
	w.Lot = &parking.Lot{
		Store: w.store, Servers: w.store, Queues: func(n queue.Name) queue.Sender { return e.Queue(n) },
		Rules: rules, Now: clock, Random: func() float64 { return w.random },
	}
	return w
}

func delivery(n int, group string) parking.Parked {
	a := activity.Activity{ID: activity.DerivedID(now.Add(time.Duration(n)*time.Millisecond), fmt.Sprint(n)), Body: "{}", CreatedAt: now}
	p := parking.Parked{
		Key: key, Activity: a, Since: now, GiveUp: now.Add(7 * 24 * time.Hour),
		Delivery: message.Delivery{Position: n, Targets: []activity.Target{{Inbox: "https://a.example/inbox", Stands: 1}}, Generation: 1},
	}
	if group != "" {
		p.Activity.OrderingKey = group
		p.Group, p.Sequence = message.GroupOf(p.Activity, "a.example"), fmt.Sprintf("%024d", n)
	}
	return p
}

func (w *world) state() circuit.State {
	w.t.Helper()
	s, err := circuit.Load(w.t.Context(), w.store, key)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) save(s circuit.State) circuit.State {
	w.t.Helper()
	saved, err := w.store.SaveServer(w.t.Context(), s)
	if err != nil {
		w.t.Fatal(err)
	}
	return saved
}

func park(s circuit.State) circuit.State { return s.Park(rules, now) }

func TestTheStateSaysSoBeforeTheFirstDeliveryIsStored(t *testing.T) {
	w := newWorld(t)
	open := w.save(circuit.State{Key: key}.Fault(rules, outcome.Timeout, "", now))
	after, err := w.Park(t.Context(), open, park, []parking.Parked{delivery(1, "")})
	if err != nil || !after.Parked || after.Phase != circuit.Unhealthy || !after.CheckAt.Equal(open.CheckAt) {
		t.Errorf("the state is %+v, error %v; want unhealthy, parked, with the check unchanged", after, err)
	}
	// The state says Parked already: nothing is written again.
	again, err := w.Park(t.Context(), after, park, []parking.Parked{delivery(2, "")})
	if err != nil || again != after {
		t.Errorf("the state is %+v, error %v; want it unchanged", again, err)
	}
}

func TestWhoeverComesSecondSeesTheOther(t *testing.T) {
	for name, meanwhile := range map[string]func(circuit.State) circuit.State{
		"it was drained": func(s circuit.State) circuit.State { return s.Resume(rules, now).Drained(rules, now) },
		"it recovers":    func(s circuit.State) circuit.State { return s.Resume(rules, now) },
		"it is stuck":    func(s circuit.State) circuit.State { return s.Resume(rules, now).Stuck(rules, now) },
	} {
		w := newWorld(t)
		known := w.save(park(circuit.State{Key: key}.Fault(rules, outcome.Timeout, "", now)))
		w.save(meanwhile(known)) // after Park has read the state
		if _, err := w.Park(t.Context(), known, park, []parking.Parked{delivery(1, "")}); err != nil {
			t.Fatal(err)
		}
		if s := w.state(); !s.Parked || s.Phase != circuit.Recovering || s.CheckAt.After(now.Add(rules.RampEvery)) {
			t.Errorf("%s: nobody will look for what was parked: %+v", name, s)
		}
	}
}

func TestAHeldGroupLeavesItsServerOpen(t *testing.T) {
	w := newWorld(t)
	for n := range 2 {
		if err := w.Hold(t.Context(), w.state(), []parking.Parked{delivery(n, "g")}); err != nil {
			t.Fatal(err)
		}
	}
	if s := w.state(); !s.Accepts(now) || !s.Parked || s.CheckAt.Sub(now) != rules.CheckSlow {
		t.Errorf("the state is %+v, want accepting, parked, with a slow check", s)
	}
	known := w.state()
	w.save(known.Resume(rules, now).Drained(rules, now))
	if err := w.Hold(t.Context(), known, []parking.Parked{delivery(3, "g")}); err != nil {
		t.Fatal(err)
	}
	if s := w.state(); !s.Parked || s.CheckAt.IsZero() {
		t.Errorf("it was drained meanwhile: %+v", s)
	}
}

func TestQueuesByOrderAndPriority(t *testing.T) {
	for _, c := range []struct {
		a    activity.Activity
		want queue.Name
	}{
		{activity.Activity{}, queue.Normal},
		{activity.Activity{Options: activity.Options{Priority: activity.High}}, queue.High},
		{activity.Activity{Options: activity.Options{Priority: activity.Normal}}, queue.Normal},
		{activity.Activity{Options: activity.Options{Priority: activity.Low}}, queue.Low},
		{activity.Activity{Options: activity.Options{Priority: activity.High, OrderingKey: "k"}}, queue.Ordered},
	} {
		if got := message.QueueOf(c.a); got != c.want {
			t.Errorf("%+v travels on %s", c.a, got)
		}
	}
}

func TestAReleaseIsSpreadMarkedAndSafeToRepeat(t *testing.T) {
	w := newWorld(t)
	ps := []parking.Parked{delivery(1, ""), delivery(2, "g"), delivery(3, "")}
	if _, err := w.Park(t.Context(), w.state(), park, ps); err != nil {
		t.Fatal(err)
	}
	sent, err := w.Send(t.Context(), ps, parking.Release{Spread: time.Minute})
	if err != nil || len(sent) != 3 {
		t.Fatalf("%d sent, %v", len(sent), err)
	}
	if d, err := w.engine.Queue(queue.Normal).Depth(t.Context()); err != nil || d.Delayed != 2 {
		t.Errorf("the queue has %+v, error %v; want 2 delayed", d, err)
	}
	if err := w.Unparked(t.Context(), sent); err != nil {
		t.Fatal(err)
	}
	left, _, end, err := w.Next(t.Context(), key, circuit.Sweep{}, 10)
	if err != nil || !end || len(left) != 1 || left[0].Group == "" {
		t.Errorf("left: %+v, %v; want the ordered one, which stays in the lot", left, err)
	}
	got, err := w.engine.Queue(queue.Ordered).Receive(t.Context(), queue.ReceiveOptions{Max: 10})
	if err != nil || len(got) != 1 {
		t.Fatalf("%d received, %v", len(got), err)
	}
	m, err := message.Decode(got[0].Body)
	if err != nil || m.Deliver.Generation != 1 || m.Deliver.Trial || m.Activity.OrderingKey != "g" {
		t.Errorf("the message is %+v, error %v; want generation 1, no trial, in the order g", m, err)
	}
	if _, err := w.Send(t.Context(), ps[:1], parking.Release{Trial: true}); err != nil {
		t.Fatal(err)
	}
	got, err = w.engine.Queue(queue.Normal).Receive(t.Context(), queue.ReceiveOptions{Max: 10})
	if err != nil || len(got) != 1 || !strings.Contains(got[0].Body, `"trial":true`) {
		t.Errorf("the queue has %+v, error %v; want one trial", got, err)
	}
}

func TestASweepFindsEverythingOnceInStepsOfAnySize(t *testing.T) {
	for _, step := range []int{1, 3, 7, 100} {
		w := newWorld(t)
		var ps []parking.Parked
		for n := range 40 {
			group := ""
			if n%4 == 0 {
				group = fmt.Sprint("g", n%3)
			}
			ps = append(ps, delivery(n, group))
		}
		if _, err := w.Park(t.Context(), w.state(), park, ps); err != nil {
			t.Fatal(err)
		}
		seen := map[activity.ID]int{}
		heads := 0
		at, end := circuit.Sweep{}, false
		for steps := 0; !end; steps++ {
			if steps > 100 {
				t.Fatal("the sweep never ends")
			}
			var page []parking.Parked
			var err error
			if page, at, end, err = w.Next(t.Context(), key, at, step); err != nil || len(page) > step {
				t.Fatalf("a page of %d, error %v; want at most %d", len(page), err, step)
			}
			for _, p := range page {
				seen[p.Activity.ID]++
				if p.Group != "" {
					heads++
				}
			}
		}
		if len(seen) != 30+3 || heads != 3 || !at.Left {
			t.Errorf("steps of %d: %d deliveries, %d heads, %+v", step, len(seen), heads, at)
		}
		if empty, err := w.Empty(t.Context(), key); err != nil || empty {
			t.Errorf("empty: %v, %v", empty, err)
		}
		if empty, err := w.Empty(t.Context(), circuit.HostKey("other.example")); err != nil || !empty {
			t.Errorf("another lot is not empty: %v", err)
		}
	}
}

func TestOverdueAreTheOldAndTheExpired(t *testing.T) {
	w := newWorld(t)
	var ps []parking.Parked
	for n := range 30 {
		p := delivery(n, "")
		switch {
		case n < 10:
			p.GiveUp = now
		case n < 12:
			p.Activity.ExpiresAt = now
		}
		ps = append(ps, p)
	}
	old := delivery(50, "g")
	old.GiveUp = now.Add(-time.Hour)
	behind := delivery(51, "g")
	behind.GiveUp = now
	ps = append(ps, old, behind, delivery(52, "g"))
	if _, err := w.Park(t.Context(), w.state(), park, ps); err != nil {
		t.Fatal(err)
	}
	for _, most := range []int{100, 5} {
		var got []parking.Parked
		err := w.Overdue(t.Context(), key, now, most, func(ps []parking.Parked) error {
			if len(ps) > most {
				t.Errorf("%d at once, at most %d", len(ps), most)
			}
			got = append(got, ps...)
			return nil
		})
		if err != nil || len(got) != 14 {
			t.Errorf("%d overdue, %v; want 14", len(got), err)
		}
		for _, p := range got {
			if !p.IsOverdue(now) {
				t.Errorf("%+v may still wait", p)
			}
		}
	}
}

// counted counts the deliveries that are read.
type counted struct {
	parking.Store
	read int
}

func (c *counted) Heads(ctx context.Context, key string, shard int, cursor string, limit int) ([]parking.Parked, string, error) {
	ps, next, err := c.Store.Heads(ctx, key, shard, cursor, limit)
	c.read += len(ps)
	return ps, next, err
}

// A server that is down is checked every day, and each check looks for overdue deliveries. With
// 10,000 such servers, checks that read whole lots would read them all, page by page of the file.
func TestALookForWhatIsOverdueReadsTheSameOfAnyLot(t *testing.T) {
	for _, n := range []int{40, 400} {
		w := newWorld(t)
		var ps []parking.Parked
		for i := range n {
			ps = append(ps, delivery(i, ""))
		}
		if _, err := w.Park(t.Context(), w.state(), park, ps); err != nil {
			t.Fatal(err)
		}
		c := &counted{Store: w.Store}
		w.Store = c
		none := func([]parking.Parked) error { return errors.New("nothing is overdue") }
		if err := w.Overdue(t.Context(), key, now, 100, none); err != nil {
			t.Fatal(err)
		}
		if most := 4 * parking.Shards; c.read == 0 || c.read > most {
			t.Errorf("read %d of %d deliveries, at most %d", c.read, n, most)
		}
	}
}

// late is a store each of whose reads of a group takes half a second.
type late struct {
	parking.Store
	took *time.Duration
}

func (l late) ParkedOf(ctx context.Context, key, group, cursor string, limit int) ([]parking.Parked, string, error) {
	*l.took += time.Second / 2
	return l.Store.ParkedOf(ctx, key, group, cursor, limit)
}

// TestARunThatIsCutOffHasEndedSomeOfWhatIsOverdue: every run begins with the same groups, so
// runs that end nothing would never come to an end.
func TestARunThatIsCutOffHasEndedSomeOfWhatIsOverdue(t *testing.T) {
	w := newWorld(t)
	var ps []parking.Parked
	for n := range 150 {
		p := delivery(n, fmt.Sprint("group", n))
		p.GiveUp = now
		ps = append(ps, p)
	}
	if _, err := w.Park(t.Context(), w.state(), park, ps); err != nil {
		t.Fatal(err)
	}
	var took time.Duration
	w.Store, w.Now = late{w.Store, &took}, func() time.Time { return now.Add(took) }
	ended, cutOff := 0, errors.New("the time of the run is over")
	err := w.Overdue(t.Context(), key, now, 1000, func(ps []parking.Parked) error {
		if took > 50*time.Second {
			return cutOff
		}
		ended += len(ps)
		return nil
	})
	if !errors.Is(err, cutOff) || ended < 80 {
		t.Errorf("a run of 50 s has ended %d of 150, want at least 80: %v", ended, err)
	}
}
