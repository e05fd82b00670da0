package parking

import (
	"context"
	"fmt"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/servers/circuit"
)

// Lot parks deliveries and sends them on their way again. Parking and releasing
// run in different processes. The steps of both are ordered such that the process
// which writes second sees what the first has written: see Park and
// circuit.State.Drained.
type Lot struct {
	Spots   Store
	Servers circuit.Store
	Queues  func(queue.Name) queue.Sender
	Rules   circuit.Rules
	Now     func() time.Time
	Random  func() float64
}

// Change is a change of a server's state.
type Change func(circuit.State) circuit.State

// Park puts deliveries into the lot of key. The server's state says so before
// the first spot is taken, by way of mark; known is what the caller believes the
// state to be, which saves a look if it says so already. Afterwards the state is
// read again: if it lets deliveries out by then, the release that let them out
// may have looked into the lot too early, and another is made due.
//
// It returns the state as it is in the end.
func (l *Lot) Park(ctx context.Context, known circuit.State, mark Change, ps []Parked) (circuit.State, error) {
	if marked := mark(known); marked != known {
		if _, _, err := circuit.Change(ctx, l.Servers, known.Key, mark); err != nil {
			return known, fmt.Errorf("park under %s: %w", known.Key, err)
		}
	}
	if err := l.Spots.Park(ctx, ps); err != nil {
		return known, fmt.Errorf("park under %s: %w", known.Key, err)
	}
	_, after, err := circuit.Change(ctx, l.Servers, known.Key, func(s circuit.State) circuit.State {
		if !s.Parked {
			s = mark(s)
		}
		return s.Missed(l.Rules, l.Now())
	})
	if err != nil {
		return known, fmt.Errorf("look after parking under %s: %w", known.Key, err)
	}
	return after, nil
}

// Hold puts the head of an ordered group, which does not get through to a server
// that accepts others, into the lot, or what has to stay behind it.
func (l *Lot) Hold(ctx context.Context, known circuit.State, ps []Parked) error {
	hold := func(s circuit.State) circuit.State {
		if s.Parked && !s.CheckAt.IsZero() {
			return s
		}
		return s.Hold(l.Rules, l.Now())
	}
	if hold(known) != known {
		if _, _, err := circuit.Change(ctx, l.Servers, known.Key, hold); err != nil {
			return fmt.Errorf("hold under %s: %w", known.Key, err)
		}
	}
	if err := l.Spots.Park(ctx, ps); err != nil {
		return fmt.Errorf("hold under %s: %w", known.Key, err)
	}
	if _, _, err := circuit.Change(ctx, l.Servers, known.Key, hold); err != nil {
		return fmt.Errorf("look after holding under %s: %w", known.Key, err)
	}
	return nil
}
