package postgres_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"fedpost/internal/engine/postgres"
	"fedpost/internal/engine/queue/queuetest"
	"fedpost/internal/testkit/engines/pgtest"
)

// TestAnOldTransactionIsToldByName, on a server of the test's own, where nobody else has one.
func TestAnOldTransactionIsToldByName(t *testing.T) {
	server, c, log := pgtest.NewServer(t), queuetest.NewClock(), new(said)
	e := pgtest.OpenAt(t, server.URL, postgres.Options{Clock: c.Now, Log: slog.New(slog.NewTextHandler(log, nil))})
	watch := func(least time.Duration, warnings int) {
		t.Helper()
		if err := e.WatchHorizon(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := e.OldestTransaction(); got < least || least == 0 && got > time.Minute {
			t.Errorf("the oldest transaction is %s old, want %s", got, least)
		}
		if n := log.count("keeps VACUUM from"); n != warnings {
			t.Errorf("%d warnings, want %d", n, warnings)
		}
	}
	watch(0, 0)
	old, err := pgx.Connect(t.Context(), server.URL+"?application_name=pg_dump")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Close(context.Background()) }()
	do(t, old, `BEGIN ISOLATION LEVEL REPEATABLE READ`)
	do(t, old, `SELECT count(*) FROM fedpost.lease`)
	watch(0, 0)
	c.Advance(3 * time.Minute)
	watch(3*time.Minute, 1)
	c.Advance(time.Minute)
	watch(4*time.Minute, 1) // it was said
	if !log.has("pg_dump (pid ") || !log.has("idle in transaction") {
		t.Error("the warning does not name the session")
	}
	do(t, old, `COMMIT`)
	watch(0, 1)
}
