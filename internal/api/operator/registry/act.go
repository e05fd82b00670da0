package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/api/contract"
	"fedpost/internal/protocol/sipher/peers"
	"fedpost/internal/servers/circuit"
)

// Block refuses all deliveries to a server, and what waits for it fails. Workers
// that have looked a moment ago still send for some seconds.
func (s *Service) Block(ctx context.Context, n Name, why string) (contract.Server, error) {
	if n.Protocol == activity.Sipher {
		if err := s.Sipher.Block(ctx, peers.Block{ServerURL: n.URL, Reason: why, CreatedAt: s.Now()}); err != nil {
			return contract.Server{}, fmt.Errorf("block %s: %w", n, err)
		}
		return s.sipher(ctx, n.URL)
	}
	if err := whole(n, "blocking"); err != nil {
		return contract.Server{}, err
	}
	return s.change(ctx, n, true, func(st circuit.State) circuit.State { return st.Block(s.Rules, why, s.Now()) })
}

// Unblock undoes Block. What failed meanwhile stays failed.
func (s *Service) Unblock(ctx context.Context, n Name) (contract.Server, error) {
	if n.Protocol == activity.Sipher {
		if err := s.Sipher.Unblock(ctx, n.URL); err != nil {
			return contract.Server{}, fmt.Errorf("unblock %s: %w", n, err)
		}
		v, err := s.sipher(ctx, n.URL)
		if errors.Is(err, ErrUnknown) {
			return v, nil // nothing but the block was known of it
		}
		return v, err
	}
	return s.change(ctx, n, true, func(st circuit.State) circuit.State { return st.Unblock(s.Rules, s.Now()) })
}

// Pause holds deliveries to a host back until a time, or until Resume if that is
// zero.
func (s *Service) Pause(ctx context.Context, n Name, until time.Time, why string) (contract.Server, error) {
	if n.Protocol == activity.Sipher {
		return contract.Server{}, fmt.Errorf("pausing %w to a Sipher server, whose deliveries do not wait: block it", ErrNotApplicable)
	}
	if err := whole(n, "pausing"); err != nil {
		return contract.Server{}, err
	}
	return s.change(ctx, n, false, func(st circuit.State) circuit.State { return st.Pause(s.Rules, until, why, s.Now()) })
}

// Resume ends a pause, an outage, or the belief that a server is gone: an
// operator knows better. What waits is released step by step.
func (s *Service) Resume(ctx context.Context, n Name) (contract.Server, error) {
	if n.Protocol == activity.Sipher {
		return s.resumeSipher(ctx, n.URL)
	}
	return s.change(ctx, n, false, func(st circuit.State) circuit.State { return st.Resume(s.Rules, s.Now()) })
}

// Check has a server that is down probed at the next run of the schedule,
// within a minute. It is also what an application calls when it has heard from a
// server: a sign of life is a reason to look, and no proof.
func (s *Service) Check(ctx context.Context, n Name) (contract.Server, error) {
	if n.Protocol == activity.Sipher {
		return s.checkSipher(ctx, n.URL)
	}
	return s.change(ctx, n, false, func(st circuit.State) circuit.State { return st.CheckNow(s.Rules, s.Now()) })
}

// Limit sets how many deliveries a minute a host gets; 0 ends that. burst is how
// many of them may come at once, 0 for those of five seconds.
func (s *Service) Limit(ctx context.Context, n Name, perMinute, burst int) (contract.Server, error) {
	if n.Protocol == activity.Sipher {
		return contract.Server{}, fmt.Errorf("a rate limit %w to a Sipher server", ErrNotApplicable)
	}
	if err := whole(n, "a rate limit"); err != nil {
		return contract.Server{}, err
	}
	host, _ := n.host()
	// The limit comes first: workers ask for it once the state says so.
	if _, err := s.Limits.Set(ctx, host, perMinute, burst); err != nil {
		return contract.Server{}, err
	}
	return s.change(ctx, n, true, func(st circuit.State) circuit.State { return st.LimitTo(s.Rules, perMinute, s.Now()) })
}

// whole refuses what is done to whole hosts only: the record of an inbox is
// looked at only while its host says that it has one.
func whole(n Name, what string) error {
	if _, ok := n.host(); !ok {
		return fmt.Errorf("%s %w to a single inbox: name its host", what, ErrNotApplicable)
	}
	return nil
}

// change applies f to a circuit. Unless blocked is set, one that an operator has
// blocked is left alone.
func (s *Service) change(ctx context.Context, n Name, blocked bool, f func(circuit.State) circuit.State) (contract.Server, error) {
	_, after, err := circuit.Change(ctx, s.Hosts, n.Key, func(st circuit.State) circuit.State {
		if st.Phase == circuit.Blocked && !blocked {
			return st
		}
		return f(st)
	})
	if err != nil {
		return contract.Server{}, err
	}
	if after.Phase == circuit.Blocked && !blocked {
		return contract.Server{}, fmt.Errorf("%s: %w", n, ErrBlocked)
	}
	return s.withLimit(ctx, after)
}
