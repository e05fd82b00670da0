package store

import (
	"context"
	"fmt"
	"time"

	"fedpost/internal/engine/table"
)

func countsPK(day string) string { return "C#" + day }

// PutCounts implements stats.Store.
func (s *Store) PutCounts(ctx context.Context, day, process string, counts map[string]int, forget time.Time) error {
	it, err := jsonItem(table.Key{PK: countsPK(day), SK: process}, counts, forget)
	if err != nil {
		return err
	}
	return wrapped(s.t.Put(ctx, it, table.Cond{}), "write counts")
}

func (s *Store) CountsOf(ctx context.Context, day string) (map[string]int, error) {
	items, _, err := s.page(ctx, table.Range{PK: countsPK(day)})
	if err != nil {
		return nil, fmt.Errorf("read counts: %w", err)
	}
	sum := map[string]int{}
	for _, it := range items {
		var counts map[string]int
		if err := decode(it, &counts); err != nil {
			return nil, err
		}
		for name, n := range counts {
			sum[name] += n
		}
	}
	return sum, nil
}
