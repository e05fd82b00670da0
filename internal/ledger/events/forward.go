package events

import (
	"context"
	"errors"
	"fmt"
)

type Marks interface {
	// Mark returns a reader's cursor and its version, both empty if there is none.
	Mark(ctx context.Context, reader string) (cursor, version string, err error)
	// SetMark sets a reader's cursor, or returns ErrChanged if its version is another.
	SetMark(ctx context.Context, reader, cursor, version string) (next string, err error)
}

// ErrChanged says that another process has moved a reader's mark meanwhile.
var ErrChanged = errors.New("the reader has gone on elsewhere")

// Forwarder passes on all events since its first run. If it dies, it passes some events on again:
// receivers recognize them by their ids.
type Forwarder struct {
	Store Store
	Marks Marks
	// Reader is the name of its mark.
	Reader string
	// Put passes events on. After an error some of them may have been.
	Put func(ctx context.Context, all []Event) error
}

// A run forwards up to 10,000 events.
const (
	forwardStep  = 500
	forwardSteps = 20
)

// Run forwards what is new.
func (f Forwarder) Run(ctx context.Context) error {
	cursor, version, err := f.Marks.Mark(ctx, f.Reader)
	if err != nil {
		return err
	}
	if version == "" {
		if cursor, err = f.Store.EventsEnd(ctx); err != nil {
			return err
		}
		_, err = f.Marks.SetMark(ctx, f.Reader, cursor, "")
		return passedOn(err)
	}
	for range forwardSteps {
		p, err := f.Store.Events(ctx, cursor, forwardStep)
		if err != nil || p.Next == cursor {
			return err
		}
		if len(p.Events) > 0 {
			if err := f.Put(ctx, p.Events); err != nil {
				return fmt.Errorf("pass events on to %s: %w", f.Reader, err)
			}
		}
		cursor = p.Next
		if version, err = f.Marks.SetMark(ctx, f.Reader, cursor, version); err != nil || !p.More || ctx.Err() != nil {
			return passedOn(err)
		}
	}
	return nil
}

// passedOn is nil for ErrChanged: another run goes on.
func passedOn(err error) error {
	if errors.Is(err, ErrChanged) {
		return nil
	}
	return err
}
