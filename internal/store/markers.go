package store

import (
	"context"
	"errors"
	"fmt"

	"fedpost/internal/engine/table"
	"fedpost/internal/enqueue/dedup"
)

var _ dedup.Store = (*Store)(nil)

func markerKey(key string) table.Key { return table.Key{PK: "M#" + key, SK: "MARK"} }

func (s *Store) FindMarker(ctx context.Context, key string) (*dedup.Marker, error) {
	m, err := s.marker(ctx, key, nil)
	return m, wrapped(err, "find marker")
}

func (s *Store) ReserveMarker(ctx context.Context, key string, m dedup.Marker) (*dedup.Marker, error) {
	it, err := markerItem(key, m)
	if err != nil {
		return nil, err
	}
	for range 3 {
		err = s.t.Put(ctx, it, table.Free(s.now()))
		if err == nil {
			return nil, nil
		}
		if !errors.Is(err, table.ErrConflict) {
			return nil, fmt.Errorf("reserve marker: %w", err)
		}
		found, getErr := s.marker(ctx, key, err)
		if getErr != nil {
			return nil, fmt.Errorf("reserve marker: %w", getErr)
		}
		switch {
		case found == nil || !found.Expires.After(s.now()):
			// The marker expired or was released after the write: the key is free.
			continue
		case found.Token == m.Token:
			return nil, nil
		}
		return found, nil
	}
	return nil, fmt.Errorf("reserve marker: %w", err)
}

func (s *Store) ReplaceMarker(ctx context.Context, key, token string, m dedup.Marker) error {
	it, err := markerItem(key, m)
	if err != nil {
		return err
	}
	err = s.t.Put(ctx, it, table.Fenced(token))
	if !errors.Is(err, table.ErrConflict) {
		return err
	}
	found, getErr := s.marker(ctx, key, err)
	if getErr != nil {
		return fmt.Errorf("replace marker: %w", getErr)
	}
	if found != nil && found.Token == m.Token {
		return nil
	}
	return dedup.ErrLost
}

func (s *Store) ReleaseMarker(ctx context.Context, key, token string) error {
	return onConflict(s.t.Delete(ctx, markerKey(key), table.Fenced(token)), dedup.ErrLost)
}

// marker returns the marker that a write conflicted with, nil if there is none
// any more.
func (s *Store) marker(ctx context.Context, key string, conflict error) (*dedup.Marker, error) {
	var it table.Item
	if ce, ok := errors.AsType[*table.ConflictError](conflict); ok && ce.Found != nil {
		it = *ce.Found
	} else {
		k := markerKey(key)
		items, err := s.t.Get(ctx, k)
		if err != nil {
			return nil, err
		}
		var ok bool
		if it, ok = items[k]; !ok {
			return nil, nil
		}
	}
	m := dedup.Marker{Token: it.Fence, Expires: it.Expires}
	if err := decode(it, &m); err != nil {
		return nil, err
	}
	return &m, nil
}

func markerItem(key string, m dedup.Marker) (table.Item, error) {
	it, err := jsonItem(markerKey(key), m, m.Expires)
	it.Fence = m.Token
	return it, err
}
