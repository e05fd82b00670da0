package circuit

import (
	"context"
	"errors"
	"fmt"
)

const changeTries = 12

// Change loads the state of key, applies f and saves the result by compare-and-swap, up to
// changeTries+1 times. It returns the state before and after. If f returns its argument,
// nothing is written. The error of a state that keeps changing wraps ErrChanged.
func Change(ctx context.Context, st Store, key string, f func(State) State) (before, after State, err error) {
	s, err := Load(ctx, st, key)
	if err != nil {
		return State{}, State{}, err
	}
	return ChangeFrom(ctx, st, s, f)
}

// ChangeFrom is Change from a loaded state.
func ChangeFrom(ctx context.Context, st Store, s State, f func(State) State) (before, after State, err error) {
	for try := 0; ; try++ {
		next := f(s)
		if next == s {
			return s, s, nil
		}
		saved, err := st.SaveServer(ctx, next)
		if err == nil {
			return s, saved, nil
		}
		if !errors.Is(err, ErrChanged) || try == changeTries {
			return s, s, fmt.Errorf("save state of %s: %w", s.Key, err)
		}
		if s, err = Load(ctx, st, s.Key); err != nil {
			return State{}, State{}, err
		}
	}
}

// Load returns the state of key: a healthy one if there is no record.
func Load(ctx context.Context, st Store, key string) (State, error) {
	found, err := st.Servers(ctx, key)
	if err != nil {
		return State{}, fmt.Errorf("load state of %s: %w", key, err)
	}
	return Of(found, key), nil
}

// Of returns the state of key among those found, or a healthy one.
func Of(found map[string]State, key string) State {
	s, ok := found[key]
	if !ok {
		return State{Key: key, Phase: Healthy}
	}
	return s
}
