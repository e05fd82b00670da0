package store

import (
	"context"
	"fmt"
	"strings"

	"fedpost/internal/activity"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
	"fedpost/internal/servers/parking"
)

var _ ledger.Lot = (*Store)(nil)

// GroupSpots implements ledger.Lot.
func (s *Store) GroupSpots(ctx context.Context, key, group string) ([]parking.Spot, error) {
	prefix := groupPrefix(group)
	list, _, err := s.t.Query(ctx, table.Prefix(lotPK(key, shard(group, parking.Shards)), prefix))
	if err != nil {
		return nil, fmt.Errorf("read what is parked of group %q: %w", group, err)
	}
	var spots []parking.Spot
	for _, it := range list {
		if s.expired(it) {
			continue
		}
		sp := parking.Spot{Key: key, Group: group}
		fields := strings.Split(it.SK[len(prefix):], "#")
		if len(fields) != 5 {
			return nil, fmt.Errorf("%q is not the key of a parking spot", it.SK)
		}
		sp.Sequence, sp.Activity = fields[0], activity.ID(fields[1])
		if _, err := fmt.Sscanf(strings.Join(fields[2:], " "), "%d %d %d", &sp.Chunk, &sp.Position, &sp.Generation); err != nil {
			return nil, fmt.Errorf("%q is not the key of a parking spot: %w", it.SK, err)
		}
		spots = append(spots, sp)
	}
	return spots, nil
}
