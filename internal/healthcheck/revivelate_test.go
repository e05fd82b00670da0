package healthcheck_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/healthcheck"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/world"
)

// slowLetters has dead letters without end, none of which can be parked again: each page
// takes two seconds.
type slowLetters struct{ pages int }

func (s *slowLetters) ParkAgain(ctx context.Context, host string, ordered bool, since time.Time, cursor string, n int) (int, string, error) {
	if s.pages++; s.pages > 1000 {
		return 0, "", nil
	}
	time.Sleep(2 * time.Second)
	return 0, "more", ctx.Err()
}

// TestARevivalStopsBeforeTheDeadlineOfItsRun: the schedule's function is killed at its
// deadline, with all else that it was about to do.
func TestARevivalStopsBeforeTheDeadlineOfItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := circuit.Rules{Revive: 30 * 24 * time.Hour}
		w := world.New(t, world.Options{Rules: rules, Now: time.Now})
		key := circuit.HostKey("back.example")
		if _, _, err := circuit.Change(t.Context(), w.Store, key, func(s circuit.State) circuit.State {
			return s.Buried(rules.Complete(), time.Now().Add(20*24*time.Hour), time.Now())
		}); err != nil {
			t.Fatal(err)
		}
		dead := &slowLetters{}
		c := w.Config()
		checks := healthcheck.New(healthcheck.Config{Servers: w.Store, Events: w.Store, Lot: c.Lot, Prober: w.Servers, Dead: dead, Rules: c.Rules, Log: c.Log})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := checks.Run(ctx); err != nil {
			t.Error(err)
		}
		if ctx.Err() != nil || dead.pages == 0 || dead.pages > 26 {
			t.Errorf("%d pages of 2 s were read within a minute (%v), 10 s of which are kept back", dead.pages, ctx.Err())
		}
		if s, err := circuit.Load(t.Context(), w.Store, key); err != nil || !s.Parked || s.CheckAt.IsZero() {
			t.Errorf("the next run does not go on: %s, %v", world.Brief(s), err)
		}
	})
}
