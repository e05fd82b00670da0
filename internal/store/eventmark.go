package store

import (
	"context"
	"fmt"

	"fedpost/internal/engine/table"
	"fedpost/internal/ledger/events"
)

var _ events.Marks = (*Store)(nil)

// markKey is of the mark of a reader of the feed. Marks never expire.
func markKey(reader string) table.Key { return table.Key{PK: "E#MARK", SK: keyName(reader)} }

func (s *Store) Mark(ctx context.Context, reader string) (cursor, version string, err error) {
	key := markKey(reader)
	items, err := s.t.Get(ctx, key)
	if err != nil {
		return "", "", fmt.Errorf("mark of reader %s: %w", reader, err)
	}
	it := items[key]
	return string(it.Data), it.Fence, nil
}

func (s *Store) SetMark(ctx context.Context, reader, cursor, version string) (next string, err error) {
	it := table.Item{Key: markKey(reader), Data: []byte(cursor)}
	if err := s.swap(ctx, &it, s.ofVersion(version)); err != nil {
		return "", fmt.Errorf("mark of reader %s: %w", reader, onConflict(err, events.ErrChanged))
	}
	return it.Fence, nil
}
