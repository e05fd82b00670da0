package store

import (
	"context"
	"fmt"
	"time"

	"fedpost/internal/engine/table"
	"fedpost/internal/message/claimcheck"
)

var _ claimcheck.Store = (*Store)(nil)

func partKey(ref string, n int) table.Key {
	return table.Key{PK: "B#" + ref, SK: fmt.Sprintf("%06d", n)}
}

func (s *Store) PutParts(ctx context.Context, ref string, parts [][]byte, forget time.Time) error {
	items := make([]table.Item, len(parts))
	for i, p := range parts {
		items[i] = table.Item{Key: partKey(ref, i), Data: p, Expires: forget}
	}
	return s.t.PutAll(ctx, items)
}

func (s *Store) Parts(ctx context.Context, ref string, n int) ([][]byte, error) {
	keys := make([]table.Key, n)
	for i := range keys {
		keys[i] = partKey(ref, i)
	}
	items, err := s.t.Get(ctx, keys...)
	if err != nil {
		return nil, err
	}
	parts := make([][]byte, n)
	for i, k := range keys {
		it, _ := s.live(items, k)
		if it == nil {
			return nil, fmt.Errorf("part %d of %d: %w", i+1, n, claimcheck.ErrNotFound)
		}
		parts[i] = it.Data
	}
	return parts, nil
}
