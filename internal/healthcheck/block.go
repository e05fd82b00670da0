package healthcheck

import (
	"context"
	"fmt"

	"fedpost/internal/servers/circuit"
)

// refusedAbove reports whether the state of another key refuses deliveries under s: of a domain
// above the host, or of the inbox's host, that is blocked or gone. What is parked then fails, and
// nothing is probed.
func (r *Runner) refusedAbove(ctx context.Context, s circuit.State) (bool, error) {
	host, whole := circuit.HostOf(s.Key)
	keys := circuit.Families(host)
	if _, family := circuit.FamilyOf(s.Key); family {
		return false, nil
	}
	if !whole {
		keys = append(keys, circuit.HostKey(host))
	}
	if len(keys) == 0 {
		return false, nil
	}
	found, err := r.Servers.Servers(ctx, keys...)
	if err != nil {
		return false, fmt.Errorf("look for blocks above: %w", err)
	}
	for _, above := range found {
		if above.Decision(r.Now()) == circuit.Refuse {
			return true, nil
		}
	}
	return false, nil
}

// hasten makes a step due for everything that the block of s covers and for which something is
// parked: that step finds the block. It searches all servers, and saves its position in s when
// its run ends.
func (r *Runner) hasten(ctx context.Context, s circuit.State) (circuit.State, error) {
	if _, family := circuit.FamilyOf(s.Key); !family && !s.InboxesUntil.After(r.Now()) {
		return s, nil
	}
	for cursor := s.Sweep.After; ; {
		if r.late(ctx) {
			s, err := r.change(ctx, s, func(s circuit.State) circuit.State {
				return s.Swept(r.Rules, circuit.Sweep{After: cursor}, r.Now())
			})
			if err != nil {
				return s, err
			}
			return s, errLate
		}
		page, next, err := r.Servers.ListServers(ctx, cursor, perPage)
		if err != nil {
			return s, fmt.Errorf("look for what is parked below: %w", err)
		}
		for _, below := range page {
			if !below.Parked || !circuit.Covers(s.Key, below.Key) {
				continue
			}
			if _, err := r.change(ctx, below, func(b circuit.State) circuit.State {
				return b.Sooner(r.Rules, r.Now(), r.Now())
			}); err != nil {
				return s, err
			}
		}
		if cursor = next; next == "" {
			return s, nil
		}
	}
}
