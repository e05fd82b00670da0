package store

import (
	"context"

	"fedpost/internal/parking"
)

// FirstOf implements parking.Store.
func (s *Store) FirstOf(ctx context.Context, key, group string) (parking.Parked, bool, error) {
	cursor := groupPrefix(group) // sorts just before the group
	for {
		ps, next, err := s.ParkedUnder(ctx, key, shard(group, parking.Shards), cursor, 1)
		if err != nil {
			return parking.Parked{}, false, err
		}
		if len(ps) > 0 {
			return ps[0], ps[0].Group == group, nil
		}
		if next == "" {
			return parking.Parked{}, false, nil
		}
		cursor = next
	}
}
