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

func (s *Store) ParkedInGroup(ctx context.Context, key, group string) (map[parking.ID]time.Time, error) {
	prefix := groupPrefix(group)
	list, _, err := s.t.Query(ctx, table.Prefix(lotPK(key, shard(group, parking.Shards)), prefix))
	if err != nil {
		return nil, fmt.Errorf("read what is parked of group %q: %w", group, err)
	}
	ids := make(map[parking.ID]time.Time, len(list))
	for _, it := range list {
		if s.expired(it) {
			continue
		}
		id := parking.ID{Key: key, Group: group}
		fields := strings.Split(it.SK[len(prefix):], "#")
		if len(fields) != 5 {
			return nil, fmt.Errorf("%q is not the key of a parked delivery", it.SK)
		}
		id.Sequence, id.Activity = fields[0], activity.ID(fields[1])
		if _, err := fmt.Sscanf(strings.Join(fields[2:], " "), "%d %d %d", &id.Chunk, &id.Position, &id.Generation); err != nil {
			return nil, fmt.Errorf("%q is not the key of a parked delivery: %w", it.SK, err)
		}
		ids[id] = time.Time{}
		if it.Due.Shard != "" {
			ids[id] = it.Due.At
		}
	}
	return ids, nil
}
