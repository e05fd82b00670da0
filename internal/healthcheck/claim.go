package healthcheck

import (
	"context"
	"errors"
	"fmt"

	"fedpost/internal/servers/circuit"
)

// claimTries bounds how often a step is claimed while workers change the state of
// its server. What is not claimed then stays due, and the next run claims it.
const claimTries = 20

// claim saves f(s), which moves the server's due time and so makes the step this
// run's. It returns false if another run has taken the step, or if the step is
// another one by now. A worker that saves the state in between, as happens all
// the time on a busy server, is no reason to leave the step to a later run.
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

// change applies f to a server's state, however often workers change it meanwhile.
func (r *Runner) change(ctx context.Context, s circuit.State, f func(circuit.State) circuit.State) (circuit.State, error) {
	_, after, err := circuit.ChangeFrom(ctx, r.Servers, s, f)
	return after, err
}
