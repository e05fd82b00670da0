package sqlite

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"fedpost/internal/engine/table"
)

// unwritable names the cause of an error that operators can mend.
// https://sqlite.org/rescode.html
func unwritable(err error) error {
	var se *sqlite.Error
	if !errors.As(err, &se) {
		return err
	}
	switch se.Code() & 0xff {
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("%w: %w", table.ErrDiskFull, err)
	case sqlite3.SQLITE_READONLY:
		return fmt.Errorf("%w: %w", table.ErrReadOnly, err)
	}
	return err
}
