package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

const (
	// logLimit is the size in bytes to which the write-ahead log shrinks: SQLite writes it anew after
	// each thousand pages unless somebody reads the file for long, and would keep its largest size.
	logLimit = 64 << 20
	// logWait is how long writers wait for readers at a time until the log shrinks, in milliseconds.
	logWait = 100
)

// boundLog shrinks a write-ahead log that has grown beyond logLimit. While somebody reads the file,
// such as a backup, it cannot, and says how large the log is, each time that it has doubled.
func (e *Engine) boundLog(ctx context.Context) error {
	if e.readers == nil {
		return nil // in memory
	}
	err := e.submit(ctx, newJob(read, func(s *session) error {
		size, err := e.logSize()
		if err == nil && size > logLimit {
			if size, err = e.shrinkLog(s); err == nil && size >= max(logLimit, 2*e.logSaid) {
				e.logSaid = size
				e.log.WarnContext(ctx, "the write-ahead log grows while another process reads the data file, such as a backup, a check or sqlite3: end that, or see to it that the disk has room",
					"bytes", size, "file", e.writer.path+walSuffix)
			}
		}
		if size <= logLimit {
			e.logSaid = 0
		}
		return err
	}))
	if err != nil {
		return fmt.Errorf("bound the write-ahead log: %w", err)
	}
	return nil
}

const walSuffix = "-wal"

func (e *Engine) logSize() (int64, error) {
	info, err := os.Stat(e.writer.path + walSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// shrinkLog empties the log unless it is read, and returns its size.
// https://sqlite.org/pragma.html#pragma_wal_checkpoint
func (e *Engine) shrinkLog(s *session) (int64, error) {
	err := s.script(fmt.Sprintf("PRAGMA busy_timeout=%d; PRAGMA wal_checkpoint(TRUNCATE)", logWait))
	if err = errors.Join(err, s.script("PRAGMA busy_timeout=5000")); err != nil {
		return 0, err
	}
	return e.logSize()
}
