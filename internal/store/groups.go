package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
	"fedpost/internal/servers/parking"
)

var _ ledger.Lot = (*Store)(nil)

func (s *Store) GroupSpots(ctx context.Context, key, group string) (map[parking.Spot]time.Time, error) {
	prefix := groupPrefix(group)
	list, _, err := s.t.Query(ctx, table.Prefix(lotPK(key, shard(group, parking.Shards)), prefix))
	if err != nil {
		return nil, fmt.Errorf("read what is parked of group %q: %w", group, err)
	}
	spots := make(map[parking.Spot]time.Time, len(list))
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
		spots[sp] = time.Time{}
		if it.Due.Shard != "" {
			spots[sp] = it.Due.At
		}
	}
	return spots, nil
}
