package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// ErrDamaged says that a data file is not as the engine has written it.
var ErrDamaged = errors.New("the data file is damaged")

// Copy writes the data file at path, as it is at one moment, into the empty file at into.
// The file may be in use by a running fedpost, which goes on writing meanwhile: VACUUM INTO
// reads one snapshot. https://sqlite.org/lang_vacuum.html#vacuuminto
func Copy(ctx context.Context, path, into string) error {
	return visit(ctx, path, func(s *session) error {
		if err := s.exec("VACUUM INTO ?", into); err != nil {
			return fmt.Errorf("copy %s: %w", path, err)
		}
		return nil
	})
}

// Found is what Inspect finds in a data file.
type Found struct {
	Schema   int            `json:"schema"`
	Bytes    int64          `json:"bytes"`
	Messages map[string]int `json:"messages"` // by queue
	Items    int            `json:"items"`
	Damage   []string       `json:"damage"` // in words; empty: none
}

// Err is an error that wraps ErrDamaged if anything is damaged.
func (f Found) Err() error {
	if len(f.Damage) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s (%d faults in all)", ErrDamaged, f.Damage[0], len(f.Damage))
}

// orphans are queries that count rows whose parent row is missing, by the words for the damage.
var orphans = []struct{ says, query string }{
	{"%d messages have no body", `SELECT count(*) FROM message WHERE seq NOT IN (SELECT seq FROM body)`},
	{"%d bodies have no message", `SELECT count(*) FROM body WHERE seq NOT IN (SELECT seq FROM message)`},
	{"%d groups with messages are not listed", `SELECT count(*) FROM (SELECT DISTINCT queue, grp FROM message WHERE fifo = 1 EXCEPT SELECT queue, grp FROM fifo_group)`},
	{"%d listed groups have no message", `SELECT count(*) FROM (SELECT queue, grp FROM fifo_group EXCEPT SELECT queue, grp FROM message WHERE fifo = 1)`},
}

const mostDamage = 100

// Inspect reads the whole data file at path, which may be in use by a running fedpost, and
// reports its contents and its damage. A file of a newer fedpost is an error.
func Inspect(ctx context.Context, path string) (f Found, err error) {
	err = visit(ctx, path, func(s *session) error {
		if err := s.exec("BEGIN"); err != nil { // one snapshot for all that is counted
			return err
		}
		f, err = inspect(s)
		return errors.Join(err, s.exec("ROLLBACK"))
	})
	return f, err
}

func inspect(s *session) (Found, error) {
	schema, err := knownSchema(s)
	f := Found{Schema: schema, Messages: map[string]int{}, Damage: []string{}}
	if err != nil {
		return f, err
	}
	if _, err := s.one("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size", nil, &f.Bytes); err != nil {
		return f, fmt.Errorf("size: %w", err)
	}
	err = s.each(fmt.Sprintf("PRAGMA integrity_check(%d)", mostDamage), nil, func(scan func(...any) error) error {
		var line string
		err := scan(&line)
		if line != "ok" {
			f.Damage = append(f.Damage, line)
		}
		return err
	})
	if err != nil {
		return f, fmt.Errorf("check integrity: %w", err)
	}
	for _, o := range orphans {
		var n int
		if _, err := s.one(o.query, nil, &n); err != nil {
			return f, fmt.Errorf("count orphans: %w", err)
		}
		if n > 0 {
			f.Damage = append(f.Damage, fmt.Sprintf(o.says, n))
		}
	}
	err = s.each("SELECT queue, count(*) FROM message GROUP BY queue ORDER BY queue", nil, func(scan func(...any) error) error {
		var name string
		var n int
		err := scan(&name, &n)
		f.Messages[name] = n
		return err
	})
	if err != nil {
		return f, fmt.Errorf("count messages: %w", err)
	}
	if _, err := s.one("SELECT count(*) FROM item", nil, &f.Items); err != nil {
		return f, fmt.Errorf("count items: %w", err)
	}
	return f, nil
}

// visit calls f on the data file at path, beside a fedpost that may have it open.
func visit(ctx context.Context, path string, f func(*session) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	s, err := openBeside(path)
	if err != nil {
		return fmt.Errorf("open the data file %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return damaged(f(s))
}

// openBeside opens the data file at path, which another process may have open.
func openBeside(path string, pragmas ...string) (*session, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is none: %w", err)
	case err != nil:
		return nil, err
	case info.Size() == 0:
		return nil, fmt.Errorf("%w: it is empty", ErrDamaged)
	}
	source, err := uri(path, append(pragmas, "busy_timeout(5000)", "temp_store(memory)")...)
	if err != nil {
		return nil, err
	}
	s, err := newSession(source)
	return s, damaged(err)
}

// knownSchema returns the version of a file's schema, or an error if it is not one of fedpost's
// or newer than this fedpost.
func knownSchema(s *session) (version int, err error) {
	if _, err := s.one("PRAGMA user_version", nil, &version); err != nil {
		return 0, fmt.Errorf("read the version of the schema: %w", err)
	}
	switch {
	case version > schemaVersion:
		return version, newer(version)
	case version == 0:
		return 0, fmt.Errorf("%w: it is no file of fedpost", ErrDamaged)
	}
	return version, nil
}

// damaged adds ErrDamaged to those errors of SQLite that mean it.
func damaged(err error) error {
	var se *sqlite.Error
	if errors.As(err, &se) && (se.Code()&0xff == sqlite3.SQLITE_CORRUPT || se.Code()&0xff == sqlite3.SQLITE_NOTADB) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}
