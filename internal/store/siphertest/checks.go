package siphertest

import (
	"errors"
	"slices"
	"time"

	"fedpost/internal/protocol/sipher/peers"
)

func (b *bed) testDuplicateSchedulesCoalesce() {
	c := peers.Check{ServerURL: b.url("b"), DueAt: b.in(5 * time.Minute)}
	again := c
	again.DueAt = b.in(time.Hour)
	other := peers.Check{ServerURL: b.url("b"), Attempt: 1, DueAt: b.in(15 * time.Minute)}
	for i, x := range []struct {
		check peers.Check
		want  bool
	}{{c, true}, {c, false}, {again, false}, {other, true}} {
		if got, err := b.ScheduleCheck(b.ctx, x.check); err != nil || got != x.want {
			b.t.Errorf("%d: %v, %v", i, got, err)
		}
	}
	due := func() []peers.Check {
		b.settle()
		cs, err := b.DueChecks(b.ctx, b.Now(), 1000)
		if err != nil {
			b.t.Fatal(err)
		}
		return slices.DeleteFunc(cs, func(c peers.Check) bool { return c.ServerURL != b.url("b") })
	}
	if got := due(); len(got) != 0 {
		b.t.Errorf("due before its time: %v", got)
	}
	b.advance(5 * time.Minute)
	got := due()
	if len(got) != 1 || got[0].ServerURL != c.ServerURL || got[0].Attempt != 0 || !got[0].DueAt.Equal(c.DueAt) {
		b.t.Fatalf("due are %+v, want only %+v", got, c)
	}

	// Of two runs that found it, one gets it.
	taken, err := b.PostponeCheck(b.ctx, got[0], b.in(time.Minute))
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.PostponeCheck(b.ctx, got[0], b.in(time.Minute)); !errors.Is(err, peers.ErrTaken) {
		b.t.Errorf("taken twice: %v", err)
	}
	if err := b.FinishCheck(b.ctx, got[0]); !errors.Is(err, peers.ErrTaken) {
		b.t.Errorf("finished by who lost it: %v", err)
	}
	if got := due(); len(got) != 0 {
		b.t.Errorf("due while it is run: %v", got)
	}
	if ok, err := b.ScheduleCheck(b.ctx, c); ok || err != nil {
		b.t.Errorf("scheduled while it is run: %v, %v", ok, err)
	}
	if err := b.FinishCheck(b.ctx, taken); err != nil {
		b.t.Error(err)
	}
	if ok, err := b.ScheduleCheck(b.ctx, c); !ok || err != nil {
		b.t.Errorf("not scheduled after it was done: %v, %v", ok, err)
	}
}

func (b *bed) testAHastenedCheckIsDueAtOnceAndOnce() {
	c := peers.Check{ServerURL: b.url("b"), Attempt: 5, DueAt: b.Now()}
	due := func() []peers.Check {
		b.settle()
		cs, err := b.DueChecks(b.ctx, b.Now(), 1000)
		if err != nil {
			b.t.Fatal(err)
		}
		return slices.DeleteFunc(cs, func(c peers.Check) bool { return c.ServerURL != b.url("b") })
	}
	hasten := func() {
		b.t.Helper()
		if err := b.HastenCheck(b.ctx, c); err != nil {
			b.t.Fatal(err)
		}
	}
	for range 3 {
		hasten() // none was waiting
	}
	got := due()
	if len(got) != 1 || got[0].Attempt != 5 || !got[0].DueAt.Equal(b.Now()) {
		b.t.Fatalf("due are %+v, want one with 5 attempts, now", got)
	}
	if err := b.FinishCheck(b.ctx, got[0]); err != nil {
		b.t.Fatal(err)
	}
	later := c
	later.DueAt = b.in(time.Hour)
	if ok, err := b.ScheduleCheck(b.ctx, later); !ok || err != nil {
		b.t.Fatal(ok, err)
	}
	if got := due(); len(got) != 0 {
		b.t.Errorf("due before its time: %+v", got)
	}
	hasten()
	if got := due(); len(got) != 1 || !got[0].DueAt.Equal(b.Now()) {
		b.t.Errorf("due are %+v, want one, now", got)
	}
	b.advance(time.Minute)
	c.DueAt = b.Now()
	hasten() // what is overdue stays as it is
	if got := due(); len(got) != 1 || !got[0].DueAt.Equal(b.in(-time.Minute)) {
		b.t.Errorf("due are %+v, want one, a minute ago", got)
	}
}
