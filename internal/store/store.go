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
	"strings"
	"time"

	"fedpost/internal/engine/table"
)

// Store keeps fedpost's records in one table.
type Store struct {
	t   table.Table
	now func() time.Time
	// worker begins the name of every owner of a claim that can be alive; empty
	// if that is not known.
	worker string
}

// New returns a store on t. now is the clock that expiry is judged by.
func New(t table.Table, now func() time.Time) *Store {
	return &Store{t: t, now: now}
}

// Alone says that no other process works on the table, and that this one begins
// the names of all owners with worker. A claim of anybody else was left by a
// process that has died, and is not waited for.
func (s *Store) Alone(worker string) *Store {
	c := *s
	c.worker = worker
	return &c
}

// revoke ends the claim in c if its owner is dead.
func (s *Store) revoke(c *chunkState) {
	if c.Until != 0 && s.worker != "" && !strings.HasPrefix(c.Owner, s.worker) {
		c.Until = revoked
	}
}

// revoked is when claims of the dead have ended: long ago, but not never, which
// would mean that they came to their end in order.
const revoked = 1

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
