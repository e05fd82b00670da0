package sqlite

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	sqlite3 "modernc.org/sqlite/lib"

	"fedpost/internal/engine/table"
)

// unwritable names the cause of an error that operators can mend. SQLite says of a file system that
// has become read-only, and of one without room for its index of the log, only that input or output
// has failed. So try finds the cause by writing a file beside the data file.
func unwritable(err error, try func() error) error {
	var coded interface {
		error
		Code() int
	}
	if !errors.As(err, &coded) {
		return err
	}
	switch coded.Code() & 0xff {
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("%w: %w", table.ErrDiskFull, err)
	case sqlite3.SQLITE_READONLY:
		return fmt.Errorf("%w: %w", table.ErrReadOnly, err)
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN:
		switch cause := try(); {
		case errors.Is(cause, syscall.ENOSPC), errors.Is(cause, syscall.EDQUOT):
			return fmt.Errorf("%w: %w", table.ErrDiskFull, err)
		case errors.Is(cause, syscall.EROFS):
			return fmt.Errorf("%w: %w", table.ErrReadOnly, err)
		}
	}
	return err
}

// page is the smallest amount of space that file systems allocate.
const page = 4 << 10

// writeBeside writes a file beside the data file, and removes it. The data file itself must
// not be opened: closing it would drop the locks that SQLite holds on it.
// https://sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_
func writeBeside(path string) error {
	if path == Memory {
		return nil
	}
	name := path + ".probe"
	err := os.WriteFile(name, make([]byte, page), 0o600)
	if gone := os.Remove(name); gone != nil && !errors.Is(gone, os.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}
