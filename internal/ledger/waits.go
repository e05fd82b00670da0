package ledger

import (
	"context"
	"fmt"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/servers/circuit"
)

// Circuits is what Explain needs of the servers' storage.
type Circuits interface {
	Servers(ctx context.Context, keys ...string) (map[string]circuit.State, error)
}

// Explain sets, for each parked recipient of rs, WaitsFor and NextAttemptAt: the host
// that the recipient waits for, or the inbox whose own circuit is open ("inbox:" and
// its URL), and when that host or inbox is checked next. It makes one read request for
// 100 hosts, and another for 100 inboxes at hosts whose inboxes have circuits.
func Explain(ctx context.Context, c Circuits, rs []RecipientView, now time.Time) error {
	hosts, err := circuits(ctx, c, rs, func(r RecipientView) string { return circuit.HostKey(activity.HostOf(r.Inbox)) })
	if err != nil {
		return err
	}
	inboxes, err := circuits(ctx, c, rs, func(r RecipientView) string {
		host := hosts[circuit.HostKey(activity.HostOf(r.Inbox))]
		if !host.Accepts(now) || host.Limited(now) > 0 || !host.InboxesUntil.After(now) {
			return "" // the host holds it, or no inbox of the host has a circuit
		}
		return circuit.InboxKey(r.Inbox)
	})
	if err != nil {
		return err
	}
	for i := range rs {
		r := &rs[i]
		if r.State != activity.Parked {
			continue
		}
		host := activity.HostOf(r.Inbox)
		holds := hosts[circuit.HostKey(host)]
		r.WaitsFor = host
		if inbox := circuit.InboxKey(r.Inbox); inboxes[inbox].Parked || !inboxes[inbox].Accepts(now) {
			r.WaitsFor, holds = inbox, inboxes[inbox]
		}
		at := holds.LooksAt(now)
		if own := r.NextAttemptAt; holds.Accepts(now) && own.After(now) && own.Before(at) {
			at = own // the head of an ordered group has a due time of its own
		}
		if !at.IsZero() {
			r.NextAttemptAt = at
		}
	}
	return nil
}

// circuits reads the states of the servers that key returns for the parked recipients
// of rs.
func circuits(ctx context.Context, c Circuits, rs []RecipientView, key func(RecipientView) string) (map[string]circuit.State, error) {
	seen := map[string]bool{"": true}
	var keys []string
	for _, r := range rs {
		if r.State != activity.Parked {
			continue
		}
		if k := key(r); !seen[k] {
			seen[k] = true
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	states, err := c.Servers(ctx, keys...)
	if err != nil {
		return nil, fmt.Errorf("look up what parked deliveries wait for: %w", err)
	}
	return states, nil
}
