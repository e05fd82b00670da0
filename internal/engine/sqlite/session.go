package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	"modernc.org/sqlite"
)

// session is one connection with the statements prepared on it. One goroutine at a time
// uses it, and best always the same one, as SQLite needs a deep stack.
//
// A session uses the driver without database/sql, whose pool, locks and conversions cost as
// much as the statements themselves. Statements run without the caller's context:
// interrupting one would end the transaction of other callers.
//
// A limit in a statement is written as an expression, LIMIT ? + 0: where the limit is a bare
// parameter, SQLite plans a statement anew each time that its parameters change, which
// costs as much as a read itself.
type session struct {
	conn  driver.Conn
	stmts map[string]driver.Stmt
	// changed is set by each statement that changes something.
	changed bool
}

// newSession returns a session on the database with the given name.
func newSession(name string) (*session, error) {
	conn, err := new(sqlite.Driver).Open(name)
	if err != nil {
		return nil, err
	}
	return &session{conn: conn, stmts: make(map[string]driver.Stmt)}, nil
}

func (s *session) close() error {
	var errs []error
	for _, stmt := range s.stmts {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(append(errs, s.conn.Close())...)
}

func (s *session) prepare(query string) (driver.Stmt, error) {
	if stmt, ok := s.stmts[query]; ok {
		return stmt, nil
	}
	stmt, err := s.conn.Prepare(query)
	if err != nil {
		return nil, fmt.Errorf("prepare %q: %w", query, err)
	}
	s.stmts[query] = stmt
	return stmt, nil
}

func (s *session) exec(query string, args ...any) error {
	_, err := s.change(query, args...)
	return err
}

// change runs a statement and returns its result.
func (s *session) change(query string, args ...any) (driver.Result, error) {
	stmt, err := s.prepare(query)
	if err != nil {
		return nil, err
	}
	values, err := bound(args)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", query, err)
	}
	res, err := stmt.(driver.StmtExecContext).ExecContext(context.Background(), values)
	if err != nil {
		return nil, err
	}
	if n, err := res.RowsAffected(); err != nil || n > 0 {
		s.changed = true
	}
	return res, nil
}

// one scans the first row of query into dest and reports whether there is one.
func (s *session) one(query string, args []any, dest ...any) (bool, error) {
	found := false
	err := s.each(query, args, func(scan func(...any) error) error {
		if found {
			return nil
		}
		found = true
		return scan(dest...)
	})
	return found && err == nil, err
}

// each calls row for every row of query. It must not write while it iterates.
func (s *session) each(query string, args []any, row func(scan func(...any) error) error) (err error) {
	stmt, err := s.prepare(query)
	if err != nil {
		return err
	}
	values, err := bound(args)
	if err != nil {
		return fmt.Errorf("%q: %w", query, err)
	}
	rows, err := stmt.(driver.StmtQueryContext).QueryContext(context.Background(), values)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns := make([]driver.Value, len(rows.Columns()))
	scan := func(dest ...any) error { return assign(dest, columns) }
	for {
		if err := rows.Next(columns); err != nil {
			if err == io.EOF { // the driver's own, never wrapped
				return nil
			}
			return err
		}
		if err := row(scan); err != nil {
			return err
		}
	}
}

// script runs several statements that are needed only once.
func (s *session) script(statements string) error {
	_, err := s.conn.(driver.ExecerContext).ExecContext(context.Background(), statements, nil)
	return err
}
