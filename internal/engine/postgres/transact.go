package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
)

const (
	// callTime bounds a round trip of a transaction. A caller that gives up does not end the
	// round trip: pgx would close the connection while the server goes on, and the outcome of
	// a COMMIT would have to be asked for.
	callTime = 10 * time.Second
	// resolveTime is how long the outcome of a COMMIT is asked for, from a server that may be
	// starting again.
	resolveTime = 8 * time.Second
	// attempts is how often a transaction runs that certainly had no effect: each try may get
	// a pooled connection to a server that is gone.
	attempts = 4
)

// number is the number of a transaction. The server gives an id again that it lost in a crash,
// so an id is that of one transaction within an epoch only.
type number struct{ id, epoch string }

// unresolved is an ErrUncertain of a transaction whose outcome can still be asked for.
type unresolved struct {
	of  number
	err error
}

func (u *unresolved) Error() string { return u.err.Error() }
func (u *unresolved) Unwrap() error { return u.err }

// tx is a transaction under way.
type tx struct {
	conn  *pgxpool.Conn
	begun bool
	id    *string // its number, once it has written something
	epoch string  // that it began in, or an earlier one
	alone bool    // the connection has no settings of its own
}

// run sends statements in one round trip, the first of the transaction after its BEGIN. Their
// functions read their results.
func (t *tx) run(statements func(*pgx.Batch)) error {
	all := &pgx.Batch{}
	if !t.begun {
		all.Queue(`BEGIN ISOLATION LEVEL READ COMMITTED`)
		if t.alone {
			all.Queue(`SET LOCAL ` + idleSetting + ` = ` + idleInTransaction)
		}
		t.begun = true
	}
	statements(all)
	all.Queue(`SELECT pg_current_xact_id_if_assigned()::text`).QueryRow(func(row pgx.Row) error { return row.Scan(&t.id) })
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	return t.conn.SendBatch(ctx, all).Close()
}

func (t *tx) end(statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	tag, err := t.conn.Exec(ctx, statement)
	if err == nil && statement == commit && tag.String() != commit {
		return pgx.ErrTxCommitRollback
	}
	return err
}

const (
	commit   = "COMMIT"
	rollback = "ROLLBACK"
)

// transact runs do in a transaction, and again while it has had no effect for a reason that
// passes. After any error but queue.ErrUncertain, do has changed nothing. Cancelling ctx keeps a
// transaction from beginning; it does not break one off.
func (e *Engine) transact(ctx context.Context, do func(*tx) error) error {
	for try := newTry(); ; {
		if err := e.once(ctx, do); !try.again(err) {
			return readable(err)
		}
	}
}

// batch runs statements, which need no results of each other, in a transaction of their own.
func (e *Engine) batch(ctx context.Context, statements func(*pgx.Batch)) error {
	return e.transact(ctx, func(t *tx) error { return t.run(statements) })
}

// try bounds how often and for how long something is tried again.
type try struct {
	left  int
	until time.Time
}

func newTry() *try { return &try{attempts, time.Now().Add(callTime)} }

// again reports whether what failed with err is worth another attempt.
func (t *try) again(err error) bool {
	t.left--
	return passes(err) && t.left > 0 && time.Now().Before(t.until)
}

func (e *Engine) once(ctx context.Context, do func(*tx) error) error {
	conn, err := e.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release() // which closes a connection with an open transaction
	t := &tx{conn: conn, epoch: *e.epoch.Load(), alone: e.bare}
	if err := do(t); err != nil {
		if t.begun && !conn.Conn().IsClosed() {
			// err says more than the error of a ROLLBACK. If that fails, the connection is closed,
			// which ends the transaction.
			_ = t.end(rollback)
		}
		e.outdated(err, conn)
		return err
	}
	if !t.begun {
		return nil
	}
	err = t.end(commit)
	if err == nil {
		return nil
	}
	var said *pgconn.PgError
	switch {
	case t.id == nil, errors.Is(err, pgx.ErrTxCommitRollback), errors.As(err, &said) && certain(said.Code):
		return fmt.Errorf("commit: %w", err)
	}
	return e.resolve(number{*t.id, t.epoch}, err)
}

// acquire takes a connection of the pool.
func (e *Engine) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	select {
	case <-e.stopped:
		return nil, ErrClosed
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return e.pool.Acquire(ctx)
}

// outdated closes all connections of the pool after an error that says that they lead to a
// server which is not the primary any more. Such a server answers pings, so the pool would
// keep the connections.
func (e *Engine) outdated(err error, conn *pgxpool.Conn) {
	if said, ok := errors.AsType[*pgconn.PgError](err); ok && said.Code == readOnly {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Conn().Close(ctx)
		e.pool.Reset()
	}
}

// resolve finds out what became of a transaction whose COMMIT failed with cause.
func (e *Engine) resolve(of number, cause error) error {
	ctx, cancel := context.WithTimeout(context.Background(), resolveTime)
	defer cancel()
	return e.outcome(ctx, of, fmt.Errorf("commit: %w", cause))
}

// settled asks again what became of a write that failed with err, for patience at most, if the
// server has not answered yet. It returns nil if the write has happened.
func (e *Engine) settled(ctx context.Context, patience time.Duration, err error) error {
	u, ok := errors.AsType[*unresolved](err)
	if !ok {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return e.outcome(ctx, u.of, err)
}

// outcome returns nil if a transaction has happened, and otherwise cause, marked as
// errAborted, queue.ErrUncertain, or, if the server could not be asked until ctx ended, unresolved.
func (e *Engine) outcome(ctx context.Context, of number, cause error) error {
	const again = 100 * time.Millisecond
	for {
		status, err := e.status(ctx, of)
		switch {
		case err == nil && status == "committed":
			return nil
		case err == nil && status == "aborted":
			return fmt.Errorf("%w: %w", errAborted, cause)
		case err == nil && status == "":
			return fmt.Errorf("%w: %w", queue.ErrUncertain, cause)
		}
		// The transaction is in progress, or the server cannot be reached.
		select {
		case <-ctx.Done():
			return &unresolved{of, fmt.Errorf("%w: %w; then: %w", queue.ErrUncertain, cause, errors.Join(err, ctx.Err()))}
		case <-e.stopped:
			return &unresolved{of, fmt.Errorf("%w: %w; then: %w", queue.ErrUncertain, cause, ErrClosed)}
		case <-time.After(again):
		}
	}
}

// status returns the server's status of a transaction; "": not known. A transaction of another
// epoch may have been undone, and its id be that of one that is committed now.
func (e *Engine) status(ctx context.Context, of number) (string, error) {
	conn, err := e.acquire(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Release()
	var status *string
	err = conn.QueryRow(ctx, `SELECT pg_xact_status($1::text::xid8)`, of.id).Scan(&status)
	if said, ok := errors.AsType[*pgconn.PgError](err); ok && said.Code == invalidParameter {
		return "aborted", nil // the id was not assigned again yet
	}
	if err != nil || status == nil {
		return "", err
	}
	// The epoch is read after the status, which is thus of this epoch or an earlier one.
	epoch, err := e.learnEpoch(ctx, conn)
	e.outdated(err, conn)
	if err != nil || *status == "committed" && epoch != of.epoch {
		return "", err
	}
	return *status, nil
}

// learnEpoch asks the server for its epoch, and begins one if the last has ended in a crash.
func (e *Engine) learnEpoch(ctx context.Context, conn *pgxpool.Conn) (epoch string, err error) {
	err = conn.QueryRow(ctx, e.sql(`INSERT INTO fedpost.epoch DEFAULT VALUES ON CONFLICT (one) DO UPDATE SET one = true RETURNING id::text`)).Scan(&epoch)
	if err == nil {
		e.epoch.Store(&epoch)
	}
	return epoch, err
}

var errAborted = errors.New("the server has undone the transaction")

// Codes of PostgreSQL: https://www.postgresql.org/docs/current/errcodes-appendix.html
const (
	protocolViolation = "08P01"
	invalidParameter  = "22023"
	readOnly          = "25006"
	uniqueViolation   = "23505"
	serialization     = "40001"
	deadlock          = "40P01"
	undefinedTable    = "42P01"
	duplicateSchema   = "42P06"
	duplicateTable    = "42P07"
	diskFull          = "53100"
	lockNotAvailable  = "55P03"
	adminShutdown     = "57P01"
	crashShutdown     = "57P02"
)

// certain reports whether a COMMIT that fails with this code has certainly not happened: the
// server said no, and did not end the session in the middle of it.
func certain(code string) bool {
	return code != adminShutdown && code != crashShutdown && code[:2] != "08" && code != "40003"
}

// passes reports whether a transaction that failed with err has had no effect, and may succeed
// when it runs again.
func passes(err error) bool {
	if err == nil || errors.Is(err, queue.ErrUncertain) {
		return false
	}
	if errors.Is(err, errAborted) {
		return true
	}
	if said, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch said.Code {
		case serialization, deadlock, readOnly, adminShutdown, crashShutdown:
			return true
		}
		return false
	}
	// The connection broke before COMMIT was sent. What could not connect at all has waited
	// long enough.
	_, unconnected := errors.AsType[*pgconn.ConnectError](err)
	return !unconnected && (pgconn.SafeToRetry(err) || broken(err))
}

// readable names the cause of an error that operators can mend.
func readable(err error) error {
	said, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case ok && said.Code == diskFull:
		return fmt.Errorf("%w: %w", table.ErrDiskFull, err)
	case ok && said.Code == readOnly:
		return fmt.Errorf("%w: %w", table.ErrReadOnly, err)
	}
	return err
}
