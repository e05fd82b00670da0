package deliver_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/healthcheck"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/long"
	"fedpost/internal/testkit/world"
)

// busy is a store in which a worker changes the state of each server between the
// look at the schedule and the claim of the step, and calls between.
type busy struct {
	circuit.Store
	between func(key string)
}

func (b busy) DueServers(ctx context.Context, shard int, now time.Time, limit int) ([]circuit.State, error) {
	ss, err := b.Store.DueServers(ctx, shard, now, limit)
	for _, s := range ss {
		b.between(s.Key)
	}
	return ss, err
}

// counted counts the writes of server states.
type counted struct {
	table.Table
	states atomic.Int64
}

func (c *counted) Put(ctx context.Context, it table.Item, cond table.Cond) error {
	if strings.HasPrefix(it.PK, "S#") {
		c.states.Add(1)
	}
	return c.Table.Put(ctx, it, cond)
}

func TestABusyHostRecoversAsFastAsAQuietOne(t *testing.T) {
	long.NotUnderRace(t)
	t.Parallel()
	took := map[bool]time.Duration{}
	for _, isBusy := range []bool{false, true} {
		w := world.New(t, world.Options{})
		w.Servers.Script("big.example", world.Down)
		var ids []activity.ID
		for i := range 500 {
			ids = append(ids, w.Send(w.Activity("Create"), fmt.Sprintf("https://big.example/u/%d/inbox", i)))
		}
		w.Run(20*time.Minute, time.Minute)
		w.Servers.Script("big.example", nil)
		n := 0
		st := busy{Store: w.Store, between: func(key string) {
			if !isBusy {
				return
			}
			n++
			_, _, err := circuit.Change(t.Context(), w.Store, key, func(s circuit.State) circuit.State {
				s.Why = fmt.Sprint("changed by a worker ", n)
				return s
			})
			if err != nil {
				t.Fatal(err)
			}
		}}
		w.Checks = healthcheck.New(healthcheck.Config{
			Servers: st, Lot: w.Config().Lot, Prober: w.Servers, Rules: w.Config().Rules, Log: w.Config().Log, Meter: w.Config().Meter, Now: w.Now,
		})
		for counts(w, ids)[activity.Delivered] < len(ids) && took[isBusy] < 3*time.Hour {
			w.Run(time.Minute, 10*time.Second)
			took[isBusy] += time.Minute
		}
	}
	if took[true] > took[false]+time.Minute {
		t.Errorf("a busy host took %s to get all that was parked, a quiet one %s", took[true], took[false])
	}
}

func TestPlainSuccessesWriteNothingOfTheirHost(t *testing.T) {
	c := &counted{}
	w := world.New(t, world.Options{Table: func(in table.Table) table.Table { c.Table = in; return c }})
	key := circuit.HostKey("big.example")
	for name, prepare := range map[string]func(circuit.State) circuit.State{
		"recovering": func(s circuit.State) circuit.State {
			s = s.Resume(circuit.Default(), w.Now())
			s.Phase, s.Parked, s.CheckAt = circuit.Recovering, true, w.Now().Add(time.Hour)
			return s
		},
		"after a failure in the window": func(s circuit.State) circuit.State {
			s.Phase, s.Parked = circuit.Healthy, false
			s.Window = circuit.Window{Start: w.Now(), Total: 3, Failures: 1, Inbox: "a"}
			return s
		},
	} {
		if _, _, err := circuit.Change(t.Context(), w.Store, key, prepare); err != nil {
			t.Fatal(err)
		}
		before := c.states.Load()
		for range 20 {
			for range 10 {
				w.Send(w.Activity("Create"), "https://big.example/inbox")
			}
			w.Poll(queue.Normal)
		}
		if n := c.states.Load() - before; n > 0 {
			t.Errorf("%s: %d writes of the state for 200 successes", name, n)
		}
	}
}
