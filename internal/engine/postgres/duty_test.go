package postgres_test

import (
	"context"
	"testing"
	"time"

	"fedpost/internal/engine/postgres"
	"fedpost/internal/engine/queue/queuetest"
	"fedpost/internal/testkit/engines/pgtest"
)

func has(t *testing.T, d *postgres.Duty) bool {
	t.Helper()
	did := false
	if err := d.Do(t.Context(), func(context.Context) error { did = true; return nil }); err != nil {
		t.Error(err)
	}
	return did
}

func TestOneProcessAtATimeHasADuty(t *testing.T) {
	c, schema := queuetest.NewClock(), pgtest.Schema(t)
	open := func() *postgres.Engine { return pgtest.Open(t, postgres.Options{Schema: schema, Now: c.Now}) }
	first := open().Duty(t.Context(), "schedule")
	second := open().Duty(t.Context(), "schedule")
	other := open().Duty(t.Context(), "something else")
	if !has(t, first) || has(t, second) || !has(t, other) {
		t.Fatalf("the first has it %t, the second %t, another duty %t; want true, false, true", has(t, first), has(t, second), has(t, other))
	}
	// The first process hangs: it does not renew its duty.
	c.Advance(20 * time.Second)
	third := open().Duty(t.Context(), "schedule")
	if !has(t, third) {
		t.Error("nobody took over from a process that hangs")
	}
	begun, ended := make(chan struct{}), make(chan error)
	go func() {
		ended <- third.Do(context.Background(), func(ctx context.Context) error {
			close(begun)
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	<-begun
	if err := third.Resign(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("work went on after the process had resigned")
	}
	fourth := open().Duty(t.Context(), "schedule")
	if !has(t, fourth) || has(t, third) {
		t.Errorf("after it resigned, the next one has it %t, itself %t", has(t, fourth), has(t, third))
	}
	for _, d := range []*postgres.Duty{first, second, other, fourth} {
		if err := d.Resign(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
