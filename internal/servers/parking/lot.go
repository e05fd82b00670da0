package parking

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/servers/circuit"
)

// Lot parks deliveries and releases them again. Parking and releasing run in
// different processes. The order of their steps makes sure that the process which
// writes second sees what the first has written: see Park and
// circuit.State.Drained.
type Lot struct {
	Spots   Store
	Servers circuit.Store
	Queues  func(queue.Name) queue.Sender
	Rules   circuit.Rules
	Now     func() time.Time
	Random  func() float64
	Log     *slog.Logger // nil: slog.Default()
}

// Change is a change of a server's state.
type Change func(circuit.State) circuit.State

// Park puts deliveries into the lot of known.Key, in three steps. mark sets Parked on the
// server's state; known is the state in the caller's cache, and if mark does not change it,
// nothing is written. Then the spots are written. Then the state is read again: if the
// server accepts deliveries by then, the last release may have seen the lot before the
// spots were there, so another release is made due.
//
// Park returns the state after the last step.
func (l *Lot) Park(ctx context.Context, known circuit.State, mark Change, ps []Parked) (circuit.State, error) {
	if marked := mark(known); marked != known {
		if _, _, err := circuit.Change(ctx, l.Servers, known.Key, mark); err != nil {
			return known, fmt.Errorf("park under %s: %w", known.Key, err)
		}
	}
	if err := l.Spots.Park(ctx, ps); err != nil {
		return known, fmt.Errorf("park under %s: %w", known.Key, err)
	}
	after, err := l.lookAfter(ctx, known.Key, mark)
	if err != nil {
		return known, err
	}
	return after, nil
}

// lookAfter is the last step of Park.
func (l *Lot) lookAfter(ctx context.Context, key string, mark Change) (circuit.State, error) {
	_, after, err := circuit.Change(ctx, l.Servers, key, func(s circuit.State) circuit.State {
		if !s.Parked {
			s = mark(s)
		}
		return s.Missed(l.Rules, l.Now())
	})
	if err != nil {
		return after, fmt.Errorf("look after parking under %s: %w", key, err)
	}
	return after, nil
}

// Finish makes the last step of Park for those of the spots that are taken. A worker whose
// process or table fails before that step leaves a spot that nobody may look for: the last
// release may have seen the lot before the spot was there, and the server's state says that
// nothing is parked. That worker's message comes back, so whoever gets it calls Finish.
func (l *Lot) Finish(ctx context.Context, spots []Spot) error {
	taken, err := l.Spots.IsParked(ctx, spots)
	if err != nil {
		return fmt.Errorf("look for what was parked before: %w", err)
	}
	keys := make(map[string]bool, len(taken))
	for sp := range taken {
		keys[sp.Key] = true
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if _, err := l.lookAfter(ctx, key, func(s circuit.State) circuit.State { return s.Park(l.Rules, l.Now()) }); err != nil {
			return err
		}
	}
	return nil
}

// Hold parks the head of an ordered group that does not get through to a server that
// accepts other deliveries, or deliveries that have to stay behind such a head.
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
