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

// heads releases the heads of ordered groups that have a due time of their own and
// are due. A head keeps its spot and its due time until its delivery is final or is
// parked anew; what is released again meanwhile, for the same time, is dropped by
// the ordered queue for five minutes and finds the group in other hands after that.
func (r *Runner) heads(ctx context.Context, now time.Time) error {
	var errs []error
	for shard := range parking.Shards {
		if r.late(ctx) {
			break
		}
		// Turns under a rate limit are sent ahead, as they come too late otherwise.
		ps, err := r.Lot.Spots.DueHeads(ctx, shard, now.Add(r.Rules.RampEvery), r.Due)
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
			if err := r.headsOf(ctx, circuit.Of(found, key), byKey[key]); err != nil {
				errs = append(errs, fmt.Errorf("groups at %s: %w", key, err))
			}
		}
	}
	return errors.Join(errs...)
}

// headsOf releases heads that are due at a server. If the server is down or paused
// they lose their due times, and wait for it like all others.
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
