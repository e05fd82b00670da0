package healthcheck

import (
	"context"
	"errors"
	"fmt"

	"fedpost/internal/servers/circuit"
)

// claimTries bounds the tries of a claim while workers change the state. After that the step
// stays due.
const claimTries = 20

// claim saves f(s), which moves the server's due time, so that no other run takes the step. It
// returns false if another run has taken it, or another step is due by now. It tries again if a
// worker has saved the state meanwhile.
func (r *Runner) claim(ctx context.Context, s circuit.State, f func(circuit.State) circuit.State) (circuit.State, bool, error) {
	phase := s.Settled(r.Now()).Phase
	for range claimTries {
		saved, err := r.Servers.SaveServer(ctx, f(s))
		if err == nil {
			return saved, true, nil
		}
		if !errors.Is(err, circuit.ErrChanged) {
			return s, false, fmt.Errorf("claim a step: %w", err)
		}
		if s, err = circuit.Load(ctx, r.Servers, s.Key); err != nil {
			return s, false, err
		}
		if s.CheckAt.IsZero() || s.CheckAt.After(r.Now()) || s.Settled(r.Now()).Phase != phase {
			return s, false, nil
		}
	}
	return s, false, nil
}

func (r *Runner) change(ctx context.Context, s circuit.State, f func(circuit.State) circuit.State) (circuit.State, error) {
	_, after, err := circuit.ChangeFrom(ctx, r.Servers, s, f)
	return after, err
}
