package store

import (
	"context"
	"fmt"
	"time"

	"fedpost/internal/engine/table"
)

// Writable returns an error if the table cannot be written. It writes one item of one
// unit, always the same.
func (s *Store) Writable(ctx context.Context) error {
	it := table.Item{Key: table.Key{PK: "H#", SK: "WRITABLE"}, Expires: s.now().Add(24 * time.Hour)}
	if err := s.t.Put(ctx, it, table.Cond{}); err != nil {
		return fmt.Errorf("write to the table: %w", err)
	}
	return nil
}
