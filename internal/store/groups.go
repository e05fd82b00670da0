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

func (s *Store) ParkedInGroup(ctx context.Context, key, group string) (map[parking.ID]time.Time, error) {
	list, _, err := s.page(ctx, table.Prefix(lotPK(key, shard(group, parking.Shards)), groupPrefix(group)))
	if err != nil {
		return nil, fmt.Errorf("read what is parked of group %q: %w", group, err)
	}
	ids := make(map[parking.ID]time.Time, len(list))
	for _, it := range list {
		u, sequence, ok := parseParkedKey(it.SK)
		if !ok {
			return nil, fmt.Errorf("%q is not the key of a parked delivery", it.SK)
		}
		id := parking.ID{Key: key, Unit: u, Group: group, Sequence: sequence}
		ids[id] = time.Time{}
		if it.Due.Shard != "" {
			ids[id] = it.Due.At
		}
	}
	return ids, nil
}
