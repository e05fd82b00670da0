package healthcheck_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/healthcheck"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
	"fedpost/internal/testkit/world"
)

// manyDown makes a world in which n hosts of a name are down. Their checks are due one after
// another.
func manyDown(t *testing.T, n int, name string) (w *world.World, hosts []string) {
	t.Helper()
	w = world.New(t, world.Options{})
	for i := range n {
		host := fmt.Sprintf(name, i)
		s := circuit.State{Key: circuit.HostKey(host)}.Fault(circuit.Default(), outcome.Timeout, "no answer", w.Now()).
			Park(circuit.Default(), w.Now()).Postpone(circuit.Default(), w.Now().Add(time.Duration(i)*time.Second), w.Now())
		if _, err := w.Raw().SaveServer(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, host)
	}
	return w, hosts
}

// listing is a prober that lists the hosts, which do not answer. It stops a run after a number
// of them.
type listing struct {
	mu    sync.Mutex
	hosts []string
	most  int
	stop  context.CancelFunc
}

func (l *listing) Probe(_ context.Context, host string) outcome.Outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hosts = append(l.hosts, host)
	if len(l.hosts)%l.most == 0 {
		l.stop()
	}
	return outcome.Outcome{Class: outcome.Retry, Reason: outcome.Timeout, Err: "no answer in time"}
}

// Where more servers are due than a run has time for, or reads, those due for the longest come
// first, in whatever shard: none starves.
func TestServersAreCheckedInTheOrderInWhichTheyAreDue(t *testing.T) {
	w, hosts := manyDown(t, 60, "down%d.example")
	w.Clock.Advance(time.Hour)
	p := &listing{most: 7}
	r := runner(w, p, func(c *healthcheck.Config) { c.Probes, c.Due = 1, 20 })
	for range (len(hosts) + p.most - 1) / p.most {
		var ctx context.Context
		ctx, p.stop = context.WithCancel(t.Context())
		if err := r.Run(ctx); err != nil && ctx.Err() == nil {
			t.Fatal(err)
		}
		p.stop()
		w.Clock.Advance(2 * minut) // over the lease of the check in which the run was stopped
	}
	first := p.hosts[:min(len(p.hosts), len(hosts))]
	if !slices.Equal(first, hosts) {
		t.Errorf("checked in the order %s, want %s", strings.Join(first, " "), strings.Join(hosts, " "))
	}
}

func TestAClockThatIsSetBackMovesAllChecks(t *testing.T) {
	w, hosts := manyDown(t, 60, "down%d.example")
	w.Clock.Advance(time.Hour)
	r := runner(w, &listing{most: len(hosts) + 1}, func(c *healthcheck.Config) { c.Due = 3 })
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Clock.Advance(-10 * time.Hour)
	back := w.Now()
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, host := range hosts {
		if s := state(t, w, circuit.HostKey(host)); s.CheckAt.After(back.Add(time.Hour)) {
			t.Errorf("%s is checked after %s", host, s.CheckAt.Sub(back))
		}
	}
}

// Steps that need no probe do not wait for those that do, of however many hosts that hang: hosts
// that are down, or said that they are gone.
func TestHostsThatHangHoldUpNoStepsWithoutAProbe(t *testing.T) {
	const inbox = "https://paused.example/inbox"
	for name, change := range map[string]func(s circuit.State, now time.Time) circuit.State{
		"down": func(s circuit.State, _ time.Time) circuit.State { return s },
		"gone": func(s circuit.State, now time.Time) circuit.State {
			return circuit.State{Key: s.Key, Version: s.Version}.SaidGone(circuit.Default(), "answered 410", now)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, hosts := manyDown(t, 60, "hangs%d.example")
			for _, host := range hosts {
				if _, err := w.Raw().SaveServer(t.Context(), change(state(t, w, circuit.HostKey(host)), w.Now())); err != nil {
					t.Fatal(err)
				}
			}
			paused := circuit.State{Key: circuit.HostKey("paused.example")}.Pause(circuit.Default(), w.Now().Add(30*minut), "asked for it", w.Now())
			if _, err := w.Raw().SaveServer(t.Context(), paused); err != nil {
				t.Fatal(err)
			}
			id := w.Send(w.Activity("Create"), inbox)
			w.Work()
			w.Clock.Advance(time.Hour)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			left := make(chan struct{})
			r := runner(w, &counting{wait: func() { <-left }}, func(c *healthcheck.Config) { c.Probes, c.Due = 10, 7 })
			over := make(chan error)
			go func() { over <- r.Run(ctx) }()
			released := func() bool { return w.Parked(circuit.HostKey("paused.example")) == 0 }
			for range 200 {
				if released() {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			if !released() {
				t.Error("what waited for the end of a pause waits for probes")
			}
			stop()
			close(left)
			if err := <-over; err != nil && ctx.Err() == nil {
				t.Fatal(err)
			}
			w.Clock.Advance(minut)
			w.Work()
			if got := w.States(id)[inbox].State; got != activity.Delivered {
				t.Errorf("it is %s", got)
			}
		})
	}
}

// The hosts of one owner are probed in turn with those of others.
func TestOneOwnersHostsThatHangHoldUpNoProbesOfOthers(t *testing.T) {
	w, _ := manyDown(t, 60, "down%d.hangs.example")
	back := circuit.State{Key: circuit.HostKey("back.example")}.Fault(circuit.Default(), outcome.Timeout, "no answer", w.Now()).
		Park(circuit.Default(), w.Now()).Postpone(circuit.Default(), w.Now().Add(30*minut), w.Now())
	if _, err := w.Raw().SaveServer(t.Context(), back); err != nil {
		t.Fatal(err)
	}
	w.Clock.Advance(time.Hour)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	p := &listing{most: 7, stop: stop}
	r := runner(w, p, func(c *healthcheck.Config) { c.Probes, c.Due = 1, 100 })
	if err := r.Run(ctx); err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
	if !slices.Contains(p.hosts, "back.example") {
		t.Errorf("the only host of its owner is not probed, but %s are", strings.Join(p.hosts, " "))
	}
}

// holding is a store that holds up the steps of all servers but one until that one's is claimed.
type holding struct {
	circuit.Store
	key     string
	once    sync.Once
	claimed chan struct{}
}

func (h *holding) SaveServer(ctx context.Context, s circuit.State) (circuit.State, error) {
	if s.Key == h.key {
		h.once.Do(func() { close(h.claimed) })
	}
	select {
	case <-h.claimed:
	case <-ctx.Done():
	}
	return h.Store.SaveServer(ctx, s)
}

// A host can have any number of inboxes that ask for a pause.
func TestOneHostsInboxesHoldUpNoStepsOfOthers(t *testing.T) {
	w := world.New(t, world.Options{})
	paused := func(key string, pause time.Duration) {
		t.Helper()
		s := circuit.State{Key: key}.Throttle(circuit.Default(), w.Now().Add(pause), "answered 429", w.Now()).Park(circuit.Default(), w.Now())
		if _, err := w.Raw().SaveServer(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 60 {
		paused(circuit.InboxKey(fmt.Sprintf("https://many.example/%d", i)), minut)
	}
	well := circuit.HostKey("well.example")
	paused(well, 2*minut)
	w.Clock.Advance(time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	time.AfterFunc(5*time.Second, cancel) // a deadline would leave the run no time
	servers := &holding{Store: w.Store, key: well, claimed: make(chan struct{})}
	r := runner(w, &counting{}, func(c *healthcheck.Config) { c.Servers = servers })
	if err := r.Run(ctx); err != nil {
		t.Errorf("its step waits for those of one host's inboxes: %.200s", err)
	}
}

// lateHeads is a store that does not answer which heads are due.
type lateHeads struct{ parking.Store }

func (lateHeads) DueHeads(ctx context.Context, _ int, _ time.Time, _ int) ([]parking.Parked, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Heads of many ordered groups, or a store that answers late, do not take all of a run's time.
func TestHeadsLeaveTimeForServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := manyDown(t, 1, "down%d.example")
		w.Clock.Advance(time.Hour)
		lot := *w.Config().Lot
		lot.Store = lateHeads{lot.Store}
		p := &counting{}
		ctx, cancel := context.WithTimeout(t.Context(), 55*time.Second)
		defer cancel()
		if err := runner(w, p, func(c *healthcheck.Config) { c.Lot = &lot }).Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if p.n.Load() == 0 {
			t.Error("no server was probed")
		}
	})
}

// TestServersWithExpiredRecordsHoldUpNoOthers: after days without runs, the limit of a run was spent on
// servers whose records had expired. Nothing took these out of the schedule until the table dropped
// them, which DynamoDB does days later, and nothing else was checked meanwhile.
func TestServersWithExpiredRecordsHoldUpNoOthers(t *testing.T) {
	rules := circuit.Default()
	w, hosts := manyDown(t, 40, "down%d.example")
	for _, host := range hosts {
		_, _, err := circuit.Change(t.Context(), w.Raw(), circuit.HostKey(host), func(s circuit.State) circuit.State {
			s.Parked = false // the record expires
			return s.Postpone(rules, s.CheckAt, w.Now())
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	w.Clock.Advance(2 * 24 * time.Hour)
	changeDown(t, w, func(s circuit.State) circuit.State { return s.Fault(rules, outcome.Timeout, "no answer", w.Now()) })
	id := w.Send(w.Activity("Create"), down)
	w.Work()
	w.Checks.Due = 5
	for range 15 {
		w.Clock.Advance(time.Minute)
		if err := w.Checks.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.Work()
	}
	w.Expect(id, map[string]activity.State{down: activity.Delivered})
}
