package healthcheck_test

import (
	"context"
	"errors"
	"testing"

	"fedpost/internal/activity"
	"fedpost/internal/healthcheck"
	"fedpost/internal/message"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
)

var errDied = errors.New("injected: the function has died")

// mortal is a store of states whose process dies right after it has saved that a
// lot is empty; before that save, late is called.
type mortal struct {
	circuit.Store
	late func()
	dead bool
}

func (m *mortal) SaveServer(ctx context.Context, s circuit.State) (circuit.State, error) {
	if m.dead {
		return s, errDied
	}
	if !s.Parked && m.late != nil {
		m.late()
		m.late, m.dead = nil, true
	}
	return m.Store.SaveServer(ctx, s)
}

func (m *mortal) Servers(ctx context.Context, keys ...string) (map[string]circuit.State, error) {
	if m.dead {
		return nil, errDied
	}
	return m.Store.Servers(ctx, keys...)
}

// dying is a lot that can no longer be looked into once the process is dead.
type dying struct {
	parking.Store
	m *mortal
}

func (d dying) Heads(ctx context.Context, key string, shard int, cursor string, limit int) ([]parking.Parked, string, error) {
	if d.m.dead {
		return nil, "", errDied
	}
	return d.Store.Heads(ctx, key, shard, cursor, limit)
}

func TestADeliveryParkedWhileItsLotIsBeingClosedIsNotOrphaned(t *testing.T) {
	for name, blocked := range map[string]bool{"recovering": false, "blocked": true} {
		t.Run(name, func(t *testing.T) {
			w, _ := outage(t, 8)
			key := circuit.HostKey("down.example")
			w.Servers.Script("down.example", nil)
			if blocked {
				if _, _, err := circuit.Change(t.Context(), w.Store, key, func(s circuit.State) circuit.State {
					return s.Block(circuit.Default(), "spam", w.Now())
				}); err != nil {
					t.Fatal(err)
				}
			}
			a := w.Activity("Create")
			p := parking.Parked{
				Key: key, Activity: a, Since: w.Now(), GiveUp: w.Now().AddDate(0, 0, 7),
				Delivery: message.Delivery{Targets: []activity.Target{{Inbox: down, Stands: 1}}, Generation: parking.FirstGeneration},
			}
			m := &mortal{Store: w.Store}
			m.late = func() {
				// What a worker does whose cached state says that the server is down.
				known := circuit.State{Key: key, Phase: circuit.Unhealthy, Parked: true, CheckAt: w.Now().Add(minut)}
				mark := func(s circuit.State) circuit.State { return s.Park(circuit.Default(), w.Now()) }
				if _, err := w.Config().Lot.Park(t.Context(), known, mark, []parking.Parked{p}); err != nil {
					t.Fatal(err)
				}
			}
			lot := *w.Config().Lot
			lot.Store, lot.Servers = dying{lot.Store, m}, m
			r := runner(w, w.Servers, func(c *healthcheck.Config) { c.Servers, c.Lot = m, &lot })
			for range 60 {
				w.Clock.Advance(minut)
				if err := r.Run(t.Context()); err != nil && !errors.Is(err, errDied) {
					t.Fatal(err)
				}
				if m.dead {
					break
				}
				w.Work()
			}
			if !m.dead {
				t.Fatal("the lot was never seen empty")
			}
			w.Restart()
			w.Run(30*minut, minut)
			taken, err := w.Store.IsParked(t.Context(), []parking.ID{p.ID()})
			if err != nil || len(taken) > 0 {
				t.Errorf("half an hour later it is still parked, %v; the server is %+v", err, state(t, w, key))
			}
			if s := state(t, w, key); s.Parked || !s.CheckAt.IsZero() {
				t.Errorf("in the end the server is %+v", s)
			}
		})
	}
}
