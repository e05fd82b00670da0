package store

import (
	"context"
	"fmt"
	"time"

	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
	"fedpost/internal/servers/parking"
)

var _ ledger.Lot = (*Store)(nil)

func (s *Store) GroupSpots(ctx context.Context, key, group string) (map[parking.Spot]time.Time, error) {
	list, _, err := s.page(ctx, table.Prefix(lotPK(key, shard(group, parking.Shards)), groupPrefix(group)))
	if err != nil {
		return nil, fmt.Errorf("read what is parked of group %q: %w", group, err)
	}
	spots := make(map[parking.Spot]time.Time, len(list))
	for _, it := range list {
		u, sequence, ok := parseSpot(it.SK)
		if !ok {
			return nil, fmt.Errorf("%q is not the key of a parking spot", it.SK)
		}
		sp := parking.Spot{Key: key, Unit: u, Group: group, Sequence: sequence}
		spots[sp] = time.Time{}
		if it.Due.Shard != "" {
			spots[sp] = it.Due.At
		}
	}
	return spots, nil
}
