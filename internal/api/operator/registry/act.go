package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fedpost/client"
	"fedpost/internal/servers/circuit"
)

// Get returns a server. A URL that is not a Sipher server's, such as one from a browser, stands for its
// host, here and in Resume and Check.
func (s *Service) Get(ctx context.Context, n Name) (client.Server, error) {
	return s.meant(n, func(d directory, n Name) (client.Server, error) { return d.get(ctx, n) })
}

// meant acts on a server, or on its host if there is no such Sipher server.
func (s *Service) meant(n Name, act func(directory, Name) (client.Server, error)) (client.Server, error) {
	v, err := act(s.of(n), n)
	if n.ByURL() && errors.Is(err, ErrUnknown) {
		return act(hosts{s}, n.ofHost())
	}
	return v, err
}

// Block refuses all deliveries to a server; those parked for it fail. Workers cache states, so they may
// send for some seconds more. A URL blocks its host for every protocol.
func (s *Service) Block(ctx context.Context, n Name, why string) (client.Server, error) {
	if n.ByURL() {
		if _, err := (hosts{s}).block(ctx, n.ofHost(), why); err != nil {
			return client.Server{}, err
		}
	}
	return s.of(n).block(ctx, n, why)
}

// Unblock undoes Block. What failed meanwhile stays failed.
func (s *Service) Unblock(ctx context.Context, n Name) (client.Server, error) {
	if n.ByURL() {
		if _, err := (hosts{s}).unblock(ctx, n.ofHost()); err != nil {
			return client.Server{}, err
		}
	}
	return s.of(n).unblock(ctx, n)
}

// Pause holds deliveries to a host back until a time. If until is zero, the pause lasts
// until Resume.
func (s *Service) Pause(ctx context.Context, n Name, until time.Time, why string) (client.Server, error) {
	return s.of(n).pause(ctx, n, until, why)
}

// Resume ends a pause, an outage, or the phase gone. Parked deliveries are released step by step.
func (s *Service) Resume(ctx context.Context, n Name) (client.Server, error) {
	return s.meant(n, func(d directory, n Name) (client.Server, error) { return d.resume(ctx, n) })
}

// Check makes a probe of a server that is down due at the next scheduled run, within a minute.
// Applications call it when they have heard from a server, which could be forged: hence a probe.
func (s *Service) Check(ctx context.Context, n Name) (client.Server, error) {
	return s.meant(n, func(d directory, n Name) (client.Server, error) { return d.check(ctx, n) })
}

// Limit sets how many deliveries a minute a host gets; 0 removes the limit. burst is how many may be
// sent at once; 0: those of five seconds.
func (s *Service) Limit(ctx context.Context, n Name, perMinute, burst int) (client.Server, error) {
	return s.of(n).limit(ctx, n, perMinute, burst)
}

// Pin replaces the pinned keys of a Sipher server, after its operator has confirmed them by another
// channel. It adds the server if it is new.
func (s *Service) Pin(ctx context.Context, n Name, k client.SipherKeys) (client.Server, error) {
	return s.of(n).pin(ctx, n, k)
}

// Forget deletes the record of a host or an inbox, with an operator's settings, unless deliveries are
// parked for it: they are found by the record.
func (s *Service) Forget(ctx context.Context, n Name) error {
	if n.ByURL() {
		return fmt.Errorf("forgetting %w to Sipher servers, whose keys are pinned: block them instead", ErrNotApplicable)
	}
	st, err := circuit.Load(ctx, s.Hosts, n.Key)
	switch {
	case err != nil:
		return err
	case st.Version == "":
		return ErrNoRecord
	case st.Parked:
		return ErrParked
	}
	if host, whole := n.host(); whole {
		// First the limit: workers read it only while the state says so.
		if _, err := s.Limits.Set(ctx, host, 0, 0); err != nil {
			return err
		}
	}
	return s.Records.DropServer(ctx, st)
}
