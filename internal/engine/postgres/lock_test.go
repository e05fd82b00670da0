package postgres_test

import (
	"context"
	"errors"
	"hash/fnv"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"fedpost/internal/engine/outbox"
	"fedpost/internal/engine/postgres"
	"fedpost/internal/testkit/e2e"
	"fedpost/internal/testkit/engines/pgtest"
)

// session is a connection beside any engine.
func session(t *testing.T, name string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams["application_name"] = name
	c, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func do(t *testing.T, c *pgx.Conn, statement string, args ...any) {
	t.Helper()
	if _, err := c.Exec(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// TestNoAdvisoryLockOfAnotherRoleHoldsFedpostUp: every role of a database may take advisory locks,
// here those that fedpost once used.
func TestNoAdvisoryLockOfAnotherRoleHoldsFedpostUp(t *testing.T) {
	schema := pgtest.Schema(t)
	other := session(t, "application")
	for _, name := range []string{"fedpost schema " + schema, "fedpost schema " + schema + " outbox"} {
		h := fnv.New64a()
		h.Write([]byte(name)) // never fails
		do(t, other, `SELECT pg_advisory_lock($1)`, int64(h.Sum64()))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	e, err := postgres.Open(ctx, pgtest.URL(t), postgres.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	insert(t, schema, "a")
	if _, err := e.Outbox().Step(t.Context(), each(accepted)); err != nil {
		t.Fatal(err)
	}
	if rows := rowsOf(t, e.Outbox(), outbox.Accepted); len(rows) != 1 {
		t.Errorf("%d rows accepted, want the one that waits", len(rows))
	}
}

// TestAnApplicationsRoleMayTakeNoLockOfFedpost: it has the rights that running.md names.
func TestAnApplicationsRoleMayTakeNoLockOfFedpost(t *testing.T) {
	schema := pgtest.Schema(t)
	pgtest.Open(t, postgres.Options{Schema: schema})
	c := session(t, "application")
	do(t, c, `BEGIN`)
	do(t, c, `CREATE ROLE `+schema+`_app`)
	do(t, c, `GRANT USAGE ON SCHEMA `+schema+` TO `+schema+`_app`)
	do(t, c, `GRANT INSERT (request, deduplication_key) ON `+schema+`.outbox TO `+schema+`_app`)
	do(t, c, `SET LOCAL ROLE `+schema+`_app`)
	for _, statement := range []string{
		`SELECT FROM ` + schema + `.lock FOR UPDATE`, `SELECT FROM ` + schema + `.lock FOR KEY SHARE`, `LOCK TABLE ` + schema + `.lock IN ROW SHARE MODE`,
		`LOCK TABLE ` + schema + `.migration IN SHARE UPDATE EXCLUSIVE MODE`, `LOCK TABLE ` + schema + `.outbox IN SHARE UPDATE EXCLUSIVE MODE`,
	} {
		do(t, c, `SAVEPOINT s`)
		_, err := c.Exec(t.Context(), statement)
		if said, ok := errors.AsType[*pgconn.PgError](err); !ok || said.Code != "42501" {
			t.Errorf("%s: error %v, want insufficient_privilege", statement, err)
		}
		do(t, c, `ROLLBACK TO s`)
	}
	do(t, c, `ROLLBACK`)
}

func TestAMigrationThatWaitsSaysForWhat(t *testing.T) {
	schema, log := pgtest.Schema(t), new(said)
	pgtest.Open(t, postgres.Options{Schema: schema})
	for _, made := range []string{`TABLE ` + schema + `.lock`, `VIEW ` + schema + `.outbox_own`} {
		pgtest.Exec(t, `DROP `+made)
	}
	pgtest.Exec(t, `ALTER TABLE `+schema+`.outbox DROP COLUMN author`)
	pgtest.Exec(t, `DELETE FROM `+schema+`.migration WHERE version >= 4`)
	other := session(t, "a forgotten psql")
	do(t, other, `BEGIN`)
	do(t, other, `LOCK TABLE `+schema+`.migration IN SHARE UPDATE EXCLUSIVE MODE`)
	opened := make(chan error)
	go func() {
		e, err := postgres.Open(context.Background(), pgtest.URL(t), postgres.Options{Schema: schema, Log: slog.New(slog.NewTextHandler(log, nil))})
		if err == nil {
			err = e.Close()
		}
		opened <- err
	}()
	e2e.Await(t, 30*time.Second, "the log to name who holds up the migration", func() (bool, string) {
		return log.has("a forgotten psql (pid "), ""
	})
	do(t, other, `ROLLBACK`)
	if err := <-opened; err != nil {
		t.Error(err)
	}
	if n := pgtest.Count(t, schema+".lock"); n != 1 {
		t.Errorf("%d locks, want that of the outbox", n)
	}
}

// TestAStartOnASchemaThatIsUpToDateWaitsForNobody: a dump may run for hours.
func TestAStartOnASchemaThatIsUpToDateWaitsForNobody(t *testing.T) {
	schema := pgtest.Schema(t)
	pgtest.Open(t, postgres.Options{Schema: schema})
	other := session(t, "another process")
	do(t, other, `BEGIN`)
	do(t, other, `LOCK TABLE `+schema+`.migration IN SHARE UPDATE EXCLUSIVE MODE`)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	e, err := postgres.Open(ctx, pgtest.URL(t), postgres.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
