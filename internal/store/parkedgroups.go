package store

import (
	"context"

	"fedpost/internal/servers/parking"
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

// groupEnd is the cursor after all of a group.
func groupEnd(group string) string { return groupPrefix(group) + "~" }

// Heads implements parking.Store.
func (s *Store) Heads(ctx context.Context, key string, shard int, cursor string, limit int) ([]parking.Parked, string, error) {
	var heads []parking.Parked
	for {
		ps, next, err := s.ParkedUnder(ctx, key, shard, cursor, limit-len(heads))
		if err != nil {
			return nil, "", err
		}
		for _, p := range ps {
			if n := len(heads); p.Group == "" || n == 0 || heads[n-1].Group != p.Group {
				heads = append(heads, p)
			}
		}
		if next == "" {
			return heads, "", nil
		}
		// A group may be long, so what else there is of it is passed over unread.
		cursor = next
		if n := len(ps); n > 0 && ps[n-1].Group != "" {
			cursor = groupEnd(ps[n-1].Group)
		}
		if len(heads) >= limit {
			return heads, cursor, nil
		}
	}
}
