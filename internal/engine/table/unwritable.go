package table

import "errors"

// Why nothing can be written, where an engine knows it. Errors of calls wrap them; a later
// call succeeds once the cause is gone.
var (
	ErrDiskFull = errors.New("the disk is full")
	ErrReadOnly = errors.New("the data folder is read-only")
)
