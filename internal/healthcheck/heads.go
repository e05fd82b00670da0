package healthcheck

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
)

// heads releases heads of ordered groups that are due. A head stays due until its delivery is
// final or parked again, so it may be released several times: the ordered queue drops a
// repetition within five minutes, and the ledger fences later ones.
func (r *Runner) heads(ctx context.Context, now time.Time) error {
	var errs []error
	for shard := range parking.Shards {
		if r.late(ctx) {
			break
		}
		// Heads with a slot are sent a step ahead, or they would be late.
		ps, err := r.Lot.Store.DueHeads(ctx, shard, now.Add(r.Rules.RampEvery), perPage)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		byKey := map[string][]parking.Parked{}
		for _, p := range ps {
			if !p.Due.After(now) || !p.Delivery.Slot.IsZero() {
				byKey[p.Key] = append(byKey[p.Key], p)
			}
		}
		if len(byKey) == 0 {
			continue
		}
		found, err := r.Servers.Servers(ctx, slices.Sorted(maps.Keys(byKey))...)
		if err != nil {
			errs = append(errs, fmt.Errorf("load the servers of ordered groups: %w", err))
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(byKey)) {
			if r.late(ctx) {
				break
			}
			if err := r.headsOf(ctx, circuit.Of(found, key), byKey[key]); err != nil {
				errs = append(errs, fmt.Errorf("groups at %s: %w", key, err))
			}
		}
	}
	return errors.Join(errs...)
}

// headsOf releases due heads of a server. While the server is down or paused, they wait for it
// without due times.
func (r *Runner) headsOf(ctx context.Context, s circuit.State, ps []parking.Parked) error {
	var released, stay []parking.Parked
	for _, p := range ps {
		if s.Decision(r.Now()) == circuit.Wait && !p.IsOverdue(r.Now()) {
			p.Due, p.Delivery.Slot = time.Time{}, time.Time{}
			stay = append(stay, p)
			continue
		}
		released = append(released, p)
	}
	if err := r.send(ctx, released, parking.Release{Once: true}); err != nil {
		return err
	}
	if len(stay) == 0 {
		return nil
	}
	_, err := r.Lot.Park(ctx, s, func(s circuit.State) circuit.State { return s.Park(r.Rules, r.Now()) }, stay)
	return err
}
