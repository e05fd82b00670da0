package healthcheck_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/healthcheck"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
	"fedpost/internal/testkit/world"
)

// manyDown makes a world in which n hosts are down. Their checks are due one after another.
func manyDown(t *testing.T, n int) (w *world.World, hosts []string) {
	t.Helper()
	w = world.New(t, world.Options{})
	for i := range n {
		host := fmt.Sprintf("down%d.example", i)
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
	hosts []string
	most  int
	stop  context.CancelFunc
}

func (l *listing) Probe(_ context.Context, host string) outcome.Outcome {
	l.hosts = append(l.hosts, host)
	if len(l.hosts)%l.most == 0 {
		l.stop()
	}
	return outcome.Outcome{Class: outcome.Retry, Reason: outcome.Timeout, Err: "no answer in time"}
}

// Where more servers are due than a run has time for, or reads, those due for the longest come
// first, in whatever shard: none starves.
func TestServersAreCheckedInTheOrderInWhichTheyAreDue(t *testing.T) {
	w, hosts := manyDown(t, 60)
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
	w, hosts := manyDown(t, 60)
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

// A run has no time for the checks of thousands of servers that hang. Still it takes the steps of
// others that are due behind them.
func TestAPauseEndsHoweverManyServersAreDown(t *testing.T) {
	w, hosts := manyDown(t, 4400)
	rules := circuit.Default()
	paused := circuit.State{Key: circuit.HostKey("paused.example")}.Park(rules, w.Now()).
		Throttle(rules, w.Now().Add(2*time.Hour), "answered 429", w.Now())
	if _, err := w.Raw().SaveServer(t.Context(), paused); err != nil {
		t.Fatal(err)
	}
	w.Clock.Advance(3 * time.Hour)
	p := &counting{}
	p.fail.Store(true)
	if err := runner(w, p, nil).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := state(t, w, paused.Key); s.Parked {
		t.Errorf("beside the checks of %d of %d servers, the step of another was not taken: %s", p.n.Load(), len(hosts), world.Brief(s))
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
		w, _ := manyDown(t, 1)
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
