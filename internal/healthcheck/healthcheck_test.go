package healthcheck_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/engine/queue"
	"fedpost/internal/healthcheck"
	"fedpost/internal/protocol"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/long"
	"fedpost/internal/testkit/world"
)

const (
	down  = "https://down.example/inbox"
	minut = time.Minute
)

func state(t *testing.T, w *world.World, key string) circuit.State {
	t.Helper()
	s, err := circuit.Load(t.Context(), w.Store, key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// outage makes a world in which a host is down and n deliveries are parked for it.
func outage(t *testing.T, n int) (*world.World, []activity.ID) {
	t.Helper()
	w := world.New(t, world.Options{})
	w.Servers.Script("down.example", world.Down)
	ids := []activity.ID{w.Send(w.Activity("Create"), down)}
	w.Run(2*minut, time.Second)
	for range n - 1 {
		ids = append(ids, w.Send(w.Activity("Create"), down))
	}
	w.Work()
	if s := state(t, w, circuit.HostKey("down.example")); s.Phase != circuit.Unhealthy || !s.Parked {
		t.Fatalf("the server is %s, want unhealthy and something parked", world.Brief(s))
	}
	return w, ids
}

// counting is a prober that counts, and answers as set.
type counting struct {
	n    atomic.Int64
	fail atomic.Bool
	wait func()
}

func (c *counting) Probe(context.Context, string) outcome.Outcome {
	c.n.Add(1)
	if c.wait != nil {
		c.wait()
	}
	if c.fail.Load() {
		return outcome.Outcome{Class: outcome.Retry, Reason: outcome.Timeout, Err: "no answer in time"}
	}
	return outcome.Outcome{Class: outcome.Delivered, Status: 200}
}

func runner(w *world.World, p healthcheck.Prober, change func(*healthcheck.Config)) *healthcheck.Runner {
	c := healthcheck.Config{
		Servers: w.Store, Lot: w.Config().Lot, Prober: p, Log: slog.New(slog.DiscardHandler), Meter: world.Unmetered{}, Now: w.Clock.Now,
	}
	if change != nil {
		change(&c)
	}
	return healthcheck.New(c)
}

func TestRunsThatOverlapMakeOneProbe(t *testing.T) {
	w, _ := outage(t, 3)
	w.Clock.Advance(5 * minut)
	const runs = 8
	var inside sync.WaitGroup
	inside.Add(1)
	p := &counting{wait: inside.Wait}
	p.fail.Store(true)
	var wg sync.WaitGroup
	for range runs {
		r := runner(w, p, nil)
		wg.Go(func() {
			if err := r.Run(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	inside.Done()
	wg.Wait()
	if n := p.n.Load(); n != 1 {
		t.Errorf("%d probes", n)
	}
	if s := state(t, w, circuit.HostKey("down.example")); s.Checks != 1 {
		t.Errorf("%d checks were counted", s.Checks)
	}
}

func TestRunsThatOverlapReleaseOnce(t *testing.T) {
	w, ids := outage(t, 200)
	w.Servers.Script("down.example", nil)
	w.Clock.Advance(5 * minut)
	for range 20 {
		var wg sync.WaitGroup
		for range 4 {
			r := runner(w, w.Servers, nil)
			wg.Go(func() {
				if err := r.Run(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		w.Work()
		w.Clock.Advance(minut)
	}
	w.Work()
	accepted := w.Servers.Accepted()
	for _, id := range ids {
		if accepted[id][down] != 1 {
			t.Errorf("%s was delivered %d times", id, accepted[id][down])
		}
	}
}

func TestARunThatDiedInItsProbeIsMadeUpFor(t *testing.T) {
	w, _ := outage(t, 3)
	w.Clock.Advance(5 * minut)
	s := state(t, w, circuit.HostKey("down.example"))
	// What a run saves before it probes; then it dies.
	if _, err := w.Store.SaveServer(t.Context(), s.Begin(circuit.Default(), minut, w.Clock.Now())); err != nil {
		t.Fatal(err)
	}
	p := &counting{}
	r := runner(w, p, nil)
	if err := r.Run(t.Context()); err != nil || p.n.Load() != 0 {
		t.Fatalf("%d probes while another run has it, %v", p.n.Load(), err)
	}
	w.Clock.Advance(minut)
	if err := r.Run(t.Context()); err != nil || p.n.Load() != 1 {
		t.Fatalf("%d probes after that, %v", p.n.Load(), err)
	}
}

func TestNothingIsBegunNearTheDeadline(t *testing.T) {
	w, _ := outage(t, 3)
	w.Clock.Advance(5 * minut)
	p := &counting{}
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
	defer cancel()
	if err := runner(w, p, nil).Run(ctx); err != nil || p.n.Load() != 0 {
		t.Errorf("%d probes, %v", p.n.Load(), err)
	}
}

func TestARunTakesOnSoManyServersAndTheNextGoesOn(t *testing.T) {
	w := world.New(t, world.Options{})
	const servers = 60
	for i := range servers {
		s := circuit.State{Key: circuit.HostKey(fmt.Sprintf("h%d.example", i))}.Fault(circuit.Default(), outcome.Timeout, "", w.Clock.Now())
		if _, err := w.Store.SaveServer(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	w.Clock.Advance(5 * minut)
	p := &counting{}
	r := runner(w, p, func(c *healthcheck.Config) { c.Due = 5 })
	for last, runs := int64(-1), 0; p.n.Load() != last; runs++ {
		last = p.n.Load()
		if err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := p.n.Load() - last; n > int64(5*circuit.Shards) && runs > 0 {
			t.Errorf("%d probes in one run", n)
		}
	}
	if n := p.n.Load(); n != servers {
		t.Errorf("%d of %d servers were probed", n, servers)
	}
}

func TestAHostThatIsProbedSlowlyKeepsNoOtherWaiting(t *testing.T) {
	w, _ := outage(t, 100)
	w.Servers.Script("down.example", nil)
	w.Run(3*minut, minut) // on its way to recover
	for i := range 10 {
		s := circuit.State{Key: circuit.HostKey(fmt.Sprintf("slow%d.example", i))}.Fault(circuit.Default(), outcome.Timeout, "", w.Clock.Now())
		if _, err := w.Store.SaveServer(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	w.Clock.Advance(5 * minut)
	before, err := w.Engine.Queue(queue.Normal).Depth(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	released := make(chan struct{})
	p := &counting{wait: func() { <-released }}
	r := runner(w, p, func(c *healthcheck.Config) { c.Probes = 2 })
	done := make(chan error)
	go func() { done <- r.Run(t.Context()) }()
	for { // the probes hang until the others were released
		d, err := w.Engine.Queue(queue.Normal).Depth(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d.Delayed+d.Visible > before.Delayed+before.Visible {
			break
		}
	}
	close(released)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestEachRunDoesDelayedWorkAndWhatProtocolsNeed(t *testing.T) {
	w := world.New(t, world.Options{})
	a, c := &part{}, &part{err: errors.New("registry is down")}
	r := runner(w, &counting{}, func(cfg *healthcheck.Config) {
		cfg.Agenda, cfg.Protocols = a, protocol.Set{{Upkeep: c}, {}, {Upkeep: &part{}}}
	})
	err := r.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "registry is down") {
		t.Errorf("error %v", err)
	}
	if a.n != 1 || c.n != 1 {
		t.Errorf("called %d and %d times", a.n, c.n)
	}
}

type part struct {
	n   int
	err error
}

func (p *part) Release(context.Context, time.Time) (int, error) { p.n++; return 1, p.err }
func (p *part) Check(context.Context, time.Time) error          { p.n++; return p.err }

func TestProbeIDsAreTheSameForTheSameCheck(t *testing.T) {
	s := circuit.State{Key: "host:a.example", Checks: 2}
	if id := healthcheck.ProbeID(s); id != "host:a.example_2" {
		t.Errorf("the id is %q, want host:a.example_2", id)
	}
}

// An inbox waits for its host, and nothing is sent before the host's pause ends. The inbox is
// looked at once an hour meanwhile, and at the end.
func TestAnInboxOfAPausedHostIsLookedAtOnceAnHour(t *testing.T) {
	w := world.New(t, world.Options{})
	begin := w.Clock.Now()
	pause := 7*time.Hour + 30*time.Minute
	host := circuit.State{Key: circuit.HostKey("a.example"), Phase: circuit.Paused, Until: begin.Add(pause), Forget: begin.Add(48 * time.Hour)}
	inbox := circuit.State{
		Key: circuit.InboxKey("https://a.example/inbox"), Phase: circuit.Unhealthy, Parked: true, Since: begin,
		CheckAt: begin.Add(time.Minute), Forget: begin.Add(48 * time.Hour),
	}
	for _, s := range []circuit.State{host, inbox} {
		if _, err := w.Store.SaveServer(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	var looks []time.Duration
	for last := inbox.CheckAt; w.Clock.Now().Sub(begin) < pause+10*time.Minute; w.Clock.Advance(time.Minute) {
		if err := w.Checks.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if at := state(t, w, inbox.Key).CheckAt; !at.Equal(last) {
			looks, last = append(looks, w.Clock.Now().Sub(begin)), at
		}
	}
	during := slices.DeleteFunc(slices.Clone(looks), func(at time.Duration) bool { return at >= pause })
	if len(during) > 9 {
		t.Errorf("%d looks in a pause of %s: %v", len(during), pause, during)
	}
	if n := len(looks); n == len(during) || looks[len(during)] > pause+2*time.Minute {
		t.Errorf("no look within two minutes of the end of the pause at %s: %v", pause, looks)
	}
}

// TestWhoParksWhileOthersReleaseIsNotForgotten lets invocations park, runs release and drain, and a
// host go up and down, all at once. At the end everything in the lot has to be released.
func TestWhoParksWhileOthersReleaseIsNotForgotten(t *testing.T) {
	for round := range long.Pick(2, 5) {
		w := world.New(t, world.Options{Seed: uint64(round)})
		var up atomic.Bool
		w.Servers.Script("down.example", func(r world.Request, n int) outcome.Outcome {
			if !up.Load() {
				return world.Down(r, n)
			}
			return world.Status(202)
		})
		var ids []activity.ID
		for i := range 120 {
			a := w.Activity("Update")
			if i%3 == 0 {
				a.OrderingKey = fmt.Sprint("key ", i%4)
			}
			ids = append(ids, w.Send(a, down))
		}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		// The clock stands still while anybody works: if it moved on by two steps between an answer
		// and its record, the claim would lapse, and the delivery would rightly be made again.
		var clock sync.RWMutex
		for range 3 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						clock.RLock()
						w.Poll(queue.Normal)
						w.Poll(queue.Ordered)
						clock.RUnlock()
					}
				}
			})
		}
		for range 2 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						clock.RLock()
						err := w.Checks.Run(t.Context())
						clock.RUnlock()
						if err != nil && !errors.Is(err, circuit.ErrChanged) {
							t.Error(err)
						}
					}
				}
			})
		}
		for i := range 60 {
			up.Store(i%4 >= 2)
			clock.Lock()
			w.Clock.Advance(30 * time.Second)
			clock.Unlock()
			w.Poll(queue.Normal)
		}
		close(stop)
		wg.Wait()
		up.Store(true)
		w.Run(27*time.Hour, minut)
		accepted := w.Servers.Accepted()
		for _, id := range ids {
			w.Expect(id, map[string]activity.State{down: activity.Delivered})
			if n := accepted[id][down]; n != 1 {
				t.Errorf("%s was delivered %d times", id, n)
			}
		}
		w.Quiet()
	}
}

func TestPhasesThatNeedNothingAreLeftAlone(t *testing.T) {
	w := world.New(t, world.Options{})
	s := circuit.State{Key: circuit.HostKey("idle.example"), Phase: circuit.Healthy, CheckAt: w.Clock.Now(), Forget: w.Clock.Now().Add(time.Hour)}
	if _, err := w.Store.SaveServer(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	p := &counting{}
	if err := runner(w, p, nil).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := state(t, w, s.Key); !s.CheckAt.IsZero() || p.n.Load() > 0 {
		t.Errorf("%d probes: %s", p.n.Load(), world.Brief(s))
	}
	if slices.Contains([]circuit.Phase{circuit.Unhealthy, circuit.HalfOpen}, state(t, w, s.Key).Phase) {
		t.Error("its phase changed")
	}
}
