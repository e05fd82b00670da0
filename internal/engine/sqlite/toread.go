package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/engine/wakeup"
)

// OpenToRead opens the file at path for reading its table, beside a fedpost that may be
// running on it. Every write returns table.ErrReadOnly. A file of an older schema stays as
// it is: the table has been the same since the first.
func OpenToRead(_ context.Context, path string) (*Engine, error) {
	e := &Engine{now: time.Now, configs: queue.Configs(nil), wake: wakeup.New(), readers: newReaders()}
	if err := e.openToRead(path); err != nil {
		return nil, fmt.Errorf("open the data file %s: %w", path, errors.Join(err, e.Close()))
	}
	return e, nil
}

func (e *Engine) openToRead(path string) error {
	s, err := openBeside(path, "query_only(1)")
	if err != nil {
		return err
	}
	if _, err := knownSchema(s); err != nil {
		return errors.Join(damaged(err), s.close())
	}
	e.readers.add(s)
	return nil
}

var errToRead = fmt.Errorf("%w: the data file was opened to read", table.ErrReadOnly)
