// Package store implements the verbs that fedpost's domain packages ask of
// their storage (claim a chunk, park a delivery, find what is due) on the
// table port, one file per idea.
//
// The verbs are written once and run on both engines; an engine is a
// table.Table. What every verb promises is in the interface that the domain
// package declares, and storetest holds this package to it.
//
// A table bills writes by the kilobyte, so what is written often is packed: see
// pack.
package store

import (
	"encoding/json"
	"fmt"
	"time"

	"fedpost/internal/table"
)

// Store keeps fedpost's records in one table.
type Store struct {
	t   table.Table
	now func() time.Time
}

// New returns a store on t. now is the clock that expiry is judged by.
func New(t table.Table, now func() time.Time) *Store {
	return &Store{t: t, now: now}
}

// expired reports whether an item is past its expiry and only waits to be
// dropped by the table.
func (s *Store) expired(it table.Item) bool {
	return !it.Expires.IsZero() && !it.Expires.After(s.now())
}

func encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode record: %w", err)
	}
	return b, nil
}

func decode(it table.Item, v any) error {
	if err := json.Unmarshal(it.Data, v); err != nil {
		return fmt.Errorf("decode record %s %s: %w", it.PK, it.SK, err)
	}
	return nil
}
