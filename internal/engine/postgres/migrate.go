package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

//go:embed migrations/*.sql
var migrations embed.FS

// ErrNewer says that a newer fedpost has changed the schema in a way that this one does not
// know.
var ErrNewer = errors.New("the schema belongs to a newer fedpost")

// compatible is how many versions a schema may be ahead of this fedpost. A migration only
// adds to what the version before it reads and writes, so that the processes of one release
// and of the next can work side by side during an upgrade.
const compatible = 1

const (
	// lockTime is how long a migration waits for a lock, in milliseconds, before it says for whom and
	// tries again. Statements of others would wait behind one that waits for longer.
	lockTime = "2000"
	// lockAgain is how long after that a migration tries again.
	lockAgain = 500 * time.Millisecond
	// duplicates is how often a migration finds that another process has just made the same.
	duplicates = 20
)

// migrate brings the schema up to date. Processes that start at the same time wait for each other, by
// locks of tables that only the schema's owner may lock: advisory locks are open to every role.
func (e *Engine) migrate(ctx context.Context) error {
	files, err := fs.Glob(migrations, "migrations/*.sql") // sorted: 0001_…, 0002_…
	if err != nil {
		return err
	}
	if e.asIs {
		return e.current(ctx, len(files))
	}
	for twice := 0; ; {
		err := pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error { return e.migrateOnce(ctx, tx, files) })
		said, refused := errors.AsType[*pgconn.PgError](err)
		switch {
		case refused && said.Code == lockNotAvailable:
			e.log.WarnContext(ctx, "the schema cannot be brought up to date while another transaction is open", "schema", e.schema, "waitsFor", e.holders(ctx))
		case refused && (said.Code == uniqueViolation || said.Code == duplicateSchema || said.Code == duplicateTable) && twice < duplicates:
			twice++
		default:
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(lockAgain):
		}
	}
}

func (e *Engine) migrateOnce(ctx context.Context, tx pgx.Tx, files []string) error {
	if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = `+lockTime); err != nil {
		return err
	}
	version, err := e.version(ctx, tx)
	if err == nil && version < len(files) {
		if _, err = tx.Exec(ctx, e.sql(`LOCK TABLE fedpost.migration IN SHARE UPDATE EXCLUSIVE MODE`)); err == nil {
			version, err = e.version(ctx, tx)
		}
	}
	if err != nil {
		return err
	}
	if version > len(files)+compatible {
		return fmt.Errorf("%w (version %d, this one knows %d): use that fedpost, or another schema", ErrNewer, version, len(files))
	}
	for n := version; n < len(files); n++ {
		text, err := fs.ReadFile(migrations, files[n])
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, e.sql(string(text)), pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("bring the schema %s from version %d to %d: %w", e.schema, n, n+1, err)
		}
		if _, err := tx.Exec(ctx, e.sql(`INSERT INTO fedpost.migration (version, name) VALUES ($1, $2)`), n+1, strings.TrimPrefix(files[n], "migrations/")); err != nil {
			return fmt.Errorf("note version %d of the schema: %w", n+1, err)
		}
	}
	return nil
}

// holders names transactions that hold locks on tables of the schema for long, for people.
func (e *Engine) holders(ctx context.Context) (who string) {
	err := e.pool.QueryRow(ctx, `SELECT coalesce(string_agg(format('%s (pid %s, role %s)', nullif(application_name, ''), pid, usename), ', '), 'another process that starts') FROM (
		SELECT DISTINCT pid, application_name, usename FROM pg_locks JOIN pg_stat_activity USING (pid)
		WHERE granted AND relation IN (SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = $1)
		AND coalesce(clock_timestamp() - xact_start > interval '1 second', true) ORDER BY pid LIMIT 5) h`, e.schema).Scan(&who)
	if err != nil {
		return "unknown: " + err.Error()
	}
	return who
}

var ErrOlder = errors.New("the schema is missing or of an older fedpost")

// current returns an error unless the schema can be used as it is.
func (e *Engine) current(ctx context.Context, known int) error {
	var n int
	err := e.pool.QueryRow(ctx, e.sql(`SELECT coalesce(max(version), 0) FROM fedpost.migration`)).Scan(&n)
	said, refused := errors.AsType[*pgconn.PgError](err)
	switch {
	case refused && said.Code == undefinedTable, err == nil && n < known:
		return fmt.Errorf("%w: start fedpost up on %s once", ErrOlder, e.Name())
	case err != nil:
		return fmt.Errorf("read the version of the schema %s: %w", e.schema, err)
	case n > known+compatible:
		return fmt.Errorf("%w (version %d, this one knows %d): use that fedpost", ErrNewer, n, known)
	}
	return nil
}

// version returns the version of the schema, 0 for none. It makes the schema if that is
// missing, which needs the right to; a schema that an administrator has made needs none.
func (e *Engine) version(ctx context.Context, tx pgx.Tx) (n int, err error) {
	var there bool
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)`, e.schema).Scan(&there); err != nil {
		return 0, fmt.Errorf("look for the schema %s: %w", e.schema, err)
	}
	if !there {
		if _, err := tx.Exec(ctx, `CREATE SCHEMA `+pgx.Identifier{e.schema}.Sanitize()); err != nil {
			return 0, fmt.Errorf("make the schema %s (or let an administrator: CREATE SCHEMA %[1]s AUTHORIZATION %s): %w", e.schema, e.pool.Config().ConnConfig.User, err)
		}
	}
	if _, err := tx.Exec(ctx, e.sql(`CREATE TABLE IF NOT EXISTS fedpost.migration (version int PRIMARY KEY, name text NOT NULL, at timestamptz NOT NULL DEFAULT now())`)); err != nil {
		return 0, fmt.Errorf("make the table of migrations in %s: %w", e.schema, err)
	}
	if err := tx.QueryRow(ctx, e.sql(`SELECT coalesce(max(version), 0) FROM fedpost.migration`)).Scan(&n); err != nil {
		return 0, fmt.Errorf("read the version of the schema %s: %w", e.schema, err)
	}
	return n, nil
}
