package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// session is one connection with the statements prepared on it. One goroutine at
// a time uses it.
//
// Statements run without the caller's context: interrupting a statement would
// make the driver discard the connection, and with it the transaction of other
// callers.
type session struct {
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
}

func newSession(ctx context.Context, db *sql.DB) (*session, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &session{conn: conn, stmts: make(map[string]*sql.Stmt)}, nil
}

func (s *session) close() error {
	var errs []error
	for _, stmt := range s.stmts {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(append(errs, s.conn.Close())...)
}

func (s *session) prepare(query string) (*sql.Stmt, error) {
	if stmt, ok := s.stmts[query]; ok {
		return stmt, nil
	}
	stmt, err := s.conn.PrepareContext(context.Background(), query)
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
func (s *session) change(query string, args ...any) (sql.Result, error) {
	stmt, err := s.prepare(query)
	if err != nil {
		return nil, err
	}
	return stmt.ExecContext(context.Background(), args...)
}

// one scans the single row of query into dest and reports whether there is one.
func (s *session) one(query string, args []any, dest ...any) (bool, error) {
	stmt, err := s.prepare(query)
	if err != nil {
		return false, err
	}
	err = stmt.QueryRowContext(context.Background(), args...).Scan(dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// each calls row for every row of query. It must not write while it iterates.
func (s *session) each(query string, args []any, row func(scan func(...any) error) error) error {
	stmt, err := s.prepare(query)
	if err != nil {
		return err
	}
	rows, err := stmt.QueryContext(context.Background(), args...)
	if err != nil {
		return err
	}
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return errors.Join(err, rows.Close())
		}
	}
	return errors.Join(rows.Err(), rows.Close())
}

// script runs several statements that are needed only once.
func (s *session) script(statements string) error {
	_, err := s.conn.ExecContext(context.Background(), statements)
	return err
}
