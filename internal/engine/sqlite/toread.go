package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"fedpost/internal/engine/bell"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
)

// OpenToRead opens the file at path for reading its table, beside a fedpost that may be
// running on it. Every write returns table.ErrReadOnly. A file of an older schema stays as
// it is: the table has been the same since the first.
func OpenToRead(_ context.Context, path string) (*Engine, error) {
	e := &Engine{now: time.Now, configs: queue.Configs(nil), wake: bell.New(), readers: newReaders()}
	if err := e.openToRead(path); err != nil {
		return nil, fmt.Errorf("open the data file %s: %w", path, errors.Join(err, e.Close()))
	}
	return e, nil
}

func (e *Engine) openToRead(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is none: %w", err)
	case err != nil:
		return err
	case info.Size() == 0:
		return fmt.Errorf("%w: it is empty", ErrDamaged)
	}
	source, err := uri(path, "busy_timeout(5000)", "temp_store(memory)", "query_only(1)")
	if err != nil {
		return err
	}
	s, err := newSession(source)
	if err != nil {
		return damaged(err)
	}
	var schema int
	if _, err := s.one("PRAGMA user_version", nil, &schema); err != nil {
		return errors.Join(damaged(err), s.close())
	}
	switch {
	case schema > schemaVersion:
		return errors.Join(newer(schema), s.close())
	case schema == 0:
		return errors.Join(fmt.Errorf("%w: it is no file of fedpost", ErrDamaged), s.close())
	}
	e.readers.add(s)
	return nil
}

// errToRead is the error of writes to an engine that was opened to read.
var errToRead = fmt.Errorf("%w: the data file was opened to read", table.ErrReadOnly)
