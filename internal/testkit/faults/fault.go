package faults

import (
	"context"
	"fmt"

	"fedpost/internal/engine/queue"
)

// Interceptor stands between a wrapped object and its user. For each call it runs act
// once at most, or breaks the call. A Plan breaks calls by their number; a simulation
// also decides when each call is made.
type Interceptor interface {
	Intercept(ctx context.Context, c Call, act func(Fault) error) error
}

// Run makes a call with the fault f, or without a fault if f is zero. It reports whether
// the fault has ended the process.
func (f Fault) Run(c Call, act func(Fault) error) (died bool, err error) {
	switch f.Kind {
	case FailBefore:
		return false, fmt.Errorf("%w: %s did not act", ErrInjected, c)
	case Refuse:
		if c.Op == "Send" || c.Op == "SendBatch" {
			return false, fmt.Errorf("%w: %s: %w: %w", ErrInjected, c, ErrRefused, queue.ErrNotSent)
		}
		return false, fmt.Errorf("%w: %s: %w", ErrInjected, c, ErrRefused)
	case DieBefore:
		return true, fmt.Errorf("%w (before %s)", ErrDead, c)
	}
	err = act(f)
	switch f.Kind {
	case DieAfter, DieHalfway:
		return true, fmt.Errorf("%w (after %s)", ErrDead, c)
	case ActThenLose:
		return false, fmt.Errorf("%w: the answer of %s was lost", ErrInjected, c)
	}
	return false, err
}
