package store

import (
	"context"
	"fmt"
	"time"

	"fedpost/internal/engine/table"
	"fedpost/internal/servers/parking"
)

func (s *Store) ParkedOf(ctx context.Context, key, group, cursor string, limit int) ([]parking.Parked, string, error) {
	r := table.Prefix(lotPK(key, shard(group, parking.Shards)), groupPrefix(group))
	r.From, r.Limit = max(r.From, after(cursor)), limit
	ps, next, err := s.parkedIn(ctx, key, r)
	return ps, next, wrapped(err, "read what is parked of group %q", group)
}

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
		// A group may be long, so the query goes on after the rest of it.
		cursor = next
		if n := len(ps); n > 0 && ps[n-1].Group != "" {
			cursor = groupPrefix(ps[n-1].Group) + "~"
		}
		if len(heads) >= limit {
			return heads, cursor, nil
		}
	}
}

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
