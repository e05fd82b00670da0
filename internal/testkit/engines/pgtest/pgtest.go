// Package pgtest gives tests a schema of their own on a PostgreSQL server.
//
// The environment variable FEDPOST_TEST_DATABASE_URL names a database that tests may use; each
// test makes a schema in it and drops it. Without the variable such a test is skipped: `go
// test ./...` needs nothing but Go. `.ci/run postgres` installs and starts a server and runs
// all of them.
package pgtest

import (
	"context"
	"crypto/rand"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"fedpost/internal/engine/postgres"
)

// Variable is the environment variable that names the database.
const Variable = "FEDPOST_TEST_DATABASE_URL"

// URL returns the database, and skips the test if there is none.
func URL(t testing.TB) string {
	t.Helper()
	url := os.Getenv(Variable)
	if url == "" {
		t.Skipf("needs PostgreSQL: set %s, or run .ci/run postgres", Variable)
	}
	return url
}

// Schema returns the name of a schema that does not exist yet, and drops it after the test.
func Schema(t testing.TB) string {
	t.Helper()
	url, schema := URL(t), "test_"+strings.ToLower(rand.Text()[:12])
	t.Cleanup(func() {
		ctx := context.Background()
		c, err := pgx.Connect(ctx, url)
		if err != nil {
			t.Errorf("drop the schema %s: %v", schema, err)
			return
		}
		if _, err := c.Exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE"); err != nil {
			t.Errorf("drop the schema %s: %v", schema, err)
		}
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return schema
}

// Open opens an engine on a schema of the test's own, unless the options name one.
func Open(t testing.TB, o postgres.Options) *postgres.Engine {
	t.Helper()
	if o.Schema == "" {
		o.Schema = Schema(t)
	}
	return OpenAt(t, URL(t), o)
}

// OpenAt is Open at another address of the database, such as a proxy's.
func OpenAt(t testing.TB, url string, o postgres.Options) *postgres.Engine {
	t.Helper()
	e, err := postgres.Open(context.Background(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// Exec runs a statement on the database, beside any engine.
func Exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	c, err := pgx.Connect(context.Background(), URL(t))
	if err == nil {
		_, err = c.Exec(context.Background(), statement, args...)
		_ = c.Close(context.Background())
	}
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// Count returns how many rows a table has, or those of them that a WHERE behind its name
// leaves.
func Count(t testing.TB, table string) (n int) {
	t.Helper()
	c, err := pgx.Connect(context.Background(), URL(t))
	if err == nil {
		err = c.QueryRow(context.Background(), "SELECT count(*) FROM "+table).Scan(&n)
		_ = c.Close(context.Background())
	}
	if err != nil {
		t.Fatalf("count the rows of %s: %v", table, err)
	}
	return n
}
