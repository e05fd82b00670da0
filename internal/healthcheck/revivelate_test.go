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

// fewLetters has dead letters that are parked again, some a page.
type fewLetters struct {
	pages  []int
	parked int
}

func (f *fewLetters) ParkAgain(context.Context, string, bool, time.Time, string, int) (int, string, error) {
	if len(f.pages) == 0 {
		return 0, "", nil
	}
	n := f.pages[0]
	f.pages, f.parked = f.pages[1:], f.parked+n
	return n, "more", nil
}

// meter counts what a runner counts, and how often that is written.
type meter struct {
	revived, flushed int
	last             int // of revived, when it was written last
}

func (m *meter) Counted(name string, n int) {
	if name == "Revived" {
		m.revived += n
	}
}

func (m *meter) Flush(context.Context) { m.flushed, m.last = m.flushed+1, m.revived }

// TestRevivedDeliveriesAreCounted for statistics, and written once a run.
func TestRevivedDeliveriesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := circuit.Rules{Revive: 30 * 24 * time.Hour}
		w := world.New(t, world.Options{Rules: rules, Now: time.Now})
		if _, _, err := circuit.Change(t.Context(), w.Store, circuit.HostKey("back.example"), func(s circuit.State) circuit.State {
			return s.DeathRecorded(rules.Complete(), time.Now().Add(20*24*time.Hour), time.Now())
		}); err != nil {
			t.Fatal(err)
		}
		dead, counts, c := &fewLetters{pages: []int{3, 0, 2}}, &meter{}, w.Config()
		checks := healthcheck.New(healthcheck.Config{Servers: w.Store, Events: w.Store, Lot: c.Lot, Prober: w.Servers, Dead: dead, Meter: counts, Rules: c.Rules, Log: c.Log, Now: time.Now})
		if err := checks.Run(t.Context()); err != nil {
			t.Error(err)
		}
		if dead.parked == 0 || counts.revived != dead.parked || counts.flushed != 1 || counts.last != dead.parked {
			t.Errorf("%d were parked again, counted %+v", dead.parked, *counts)
		}
	})
}

// TestARevivalStopsBeforeTheDeadlineOfItsRun: the schedule's function is killed at its
// deadline, with all else that it was about to do.
func TestARevivalStopsBeforeTheDeadlineOfItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := circuit.Rules{Revive: 30 * 24 * time.Hour}
		w := world.New(t, world.Options{Rules: rules, Now: time.Now})
		key := circuit.HostKey("back.example")
		if _, _, err := circuit.Change(t.Context(), w.Store, key, func(s circuit.State) circuit.State {
			return s.DeathRecorded(rules.Complete(), time.Now().Add(20*24*time.Hour), time.Now())
		}); err != nil {
			t.Fatal(err)
		}
		dead := &slowLetters{}
		c := w.Config()
		checks := healthcheck.New(healthcheck.Config{Servers: w.Store, Events: w.Store, Lot: c.Lot, Prober: w.Servers, Dead: dead, Rules: c.Rules, Log: c.Log, Meter: c.Meter, Now: time.Now})
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
