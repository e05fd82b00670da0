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

// Lot parks deliveries and releases them. Both run in different processes. If two write at the same
// time, the one that writes second sees what the first has written: see Park and
// circuit.State.Drained.
type Lot struct {
	Store   Store
	Servers circuit.Store
	Queues  func(queue.Name) queue.Sender
	Rules   circuit.Rules
	Now     func() time.Time
	Random  func() float64
	Log     *slog.Logger // nil: slog.Default()
}

// Change changes a server's state.
type Change func(circuit.State) circuit.State

// Park parks deliveries under known.Key in three steps. mark sets Parked on the server's state;
// known is the cached state, and if mark does not change it, nothing is written. Then the
// deliveries are stored. Then the state is read again: if the server accepts deliveries by then,
// a release may have missed them, and another is made due. Park returns that state.
func (l *Lot) Park(ctx context.Context, known circuit.State, mark Change, ps []Parked) (circuit.State, error) {
	return l.park(ctx, known, mark, l.missed(mark), ps)
}

// park changes the state by before, stores the deliveries, and changes the state by after.
func (l *Lot) park(ctx context.Context, known circuit.State, before, after Change, ps []Parked) (circuit.State, error) {
	if marked := before(known); marked != known {
		if _, _, err := circuit.Change(ctx, l.Servers, known.Key, before); err != nil {
			return known, fmt.Errorf("park under %s: %w", known.Key, err)
		}
	}
	if err := l.Store.Park(ctx, ps); err != nil {
		return known, fmt.Errorf("park under %s: %w", known.Key, err)
	}
	_, now, err := circuit.Change(ctx, l.Servers, known.Key, after)
	if err != nil {
		return known, fmt.Errorf("look after parking under %s: %w", known.Key, err)
	}
	return now, nil
}

// missed is the last change of Park.
func (l *Lot) missed(mark Change) Change {
	return func(s circuit.State) circuit.State {
		if !s.Parked {
			s = mark(s)
		}
		return s.Missed(l.Rules, l.Now())
	}
}

// Finish makes the last step of Park for those ids that are parked. If a worker dies before that
// step, no release may find its deliveries. Their message comes back, and whoever receives it
// calls Finish.
func (l *Lot) Finish(ctx context.Context, ids []ID) error {
	taken, err := l.Store.IsParked(ctx, ids)
	if err != nil {
		return fmt.Errorf("look for what was parked before: %w", err)
	}
	keys := make(map[string]bool, len(taken))
	for sp := range taken {
		keys[sp.Key] = true
	}
	missed := l.missed(func(s circuit.State) circuit.State { return s.Park(l.Rules, l.Now()) })
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if _, _, err := circuit.Change(ctx, l.Servers, key, missed); err != nil {
			return fmt.Errorf("look after parking under %s: %w", key, err)
		}
	}
	return nil
}

// Hold parks the head of an ordered group that fails while its server accepts others, or deliveries
// that wait for such a head.
func (l *Lot) Hold(ctx context.Context, known circuit.State, ps []Parked) error {
	hold := func(s circuit.State) circuit.State {
		if s.Parked && !s.CheckAt.IsZero() {
			return s
		}
		return s.Hold(l.Rules, l.Now())
	}
	_, err := l.park(ctx, known, hold, hold, ps)
	return err
}
