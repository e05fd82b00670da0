package store

import (
	"context"
	"errors"
	"fmt"

	"fedpost/internal/engine/table"
	"fedpost/internal/keys"
)

var _ keys.Store = (*Store)(nil)

func signingKey(id string) table.Key { return table.Key{PK: "K#" + id, SK: "KEY"} }

// PutKey implements keys.Store. A write whose answer was lost is repeated by
// the SDK and then finds the key taken: by the same sealed bytes, which only that
// first write can have stored.
func (s *Store) PutKey(ctx context.Context, k keys.Sealed, replace bool) error {
	data, err := encode(k)
	if err != nil {
		return err
	}
	it := table.Item{Key: signingKey(k.ID), Data: data}
	if replace {
		return s.t.Put(ctx, it, table.Cond{})
	}
	err = s.t.Put(ctx, it, table.Cond{Absent: true})
	if !errors.Is(err, table.ErrConflict) {
		return err
	}
	stored, getErr := s.t.Get(ctx, it.Key)
	if getErr != nil {
		return getErr
	}
	if string(stored[it.Key].Data) == string(data) {
		return nil
	}
	return keys.ErrExists
}

// Key implements keys.Store.
func (s *Store) Key(ctx context.Context, id string) (keys.Sealed, error) {
	key := signingKey(id)
	items, err := s.t.Get(ctx, key)
	if err != nil {
		return keys.Sealed{}, fmt.Errorf("read key: %w", err)
	}
	it, ok := items[key]
	if !ok {
		return keys.Sealed{}, keys.ErrNotFound
	}
	k := keys.Sealed{ID: id}
	return k, decode(it, &k)
}
