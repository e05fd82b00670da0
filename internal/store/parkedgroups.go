package store

import (
	"context"
	"fmt"

	"fedpost/internal/engine/table"
	"fedpost/internal/servers/parking"
)

func (s *Store) ParkedOf(ctx context.Context, key, group, cursor string, limit int) ([]parking.Parked, string, error) {
	r := table.Prefix(lotPK(key, shard(group, parking.Shards)), groupPrefix(group))
	r.From, r.Limit = max(r.From, after(cursor)), limit
	ps, next, err := s.parkedIn(ctx, key, r)
	if err != nil {
		return nil, "", fmt.Errorf("read what is parked of group %q: %w", group, err)
	}
	return ps, next, nil
}

func groupEnd(group string) string { return groupPrefix(group) + "~" }

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
		// A group may be long, so the query goes on behind the rest of it.
		cursor = next
		if n := len(ps); n > 0 && ps[n-1].Group != "" {
			cursor = groupEnd(ps[n-1].Group)
		}
		if len(heads) >= limit {
			return heads, cursor, nil
		}
	}
}
