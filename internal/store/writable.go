package store

import (
	"context"
	"fmt"
	"time"

	"fedpost/internal/engine/table"
)

// Writable reports whether the table can be written, by writing: one item of one
// unit, always the same.
func (s *Store) Writable(ctx context.Context) error {
	it := table.Item{Key: table.Key{PK: "H#", SK: "WRITABLE"}, Expires: s.now().Add(24 * time.Hour)}
	if err := s.t.Put(ctx, it, table.Cond{}); err != nil {
		return fmt.Errorf("write to the table: %w", err)
	}
	return nil
}
