package store

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	"fedpost/internal/engine/table"
)

// newFence returns a token that no earlier version of the same item carries: 48
// random bits, short because it is paid for with every write.
func newFence() string {
	var b [6]byte
	rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// swap writes it with a new fence, which it sets, if cond holds.
//
// A client that lost the answer to a write repeats it, and then conflicts with itself. If the
// stored item carries the fence of this very write, the write has happened. The
// *table.ConflictError of any other conflict has Found set if there is an item.
func (s *Store) swap(ctx context.Context, it *table.Item, cond table.Cond) error {
	it.Fence = newFence()
	err := s.t.Put(ctx, *it, cond)
	conflict, ok := errors.AsType[*table.ConflictError](err)
	if !ok {
		return err
	}
	if conflict.Found == nil {
		found, getErr := s.t.Get(ctx, it.Key)
		if getErr != nil {
			return errors.Join(err, getErr)
		}
		if there, ok := found[it.Key]; ok {
			conflict.Found = &there
		}
	}
	if conflict.Found != nil && conflict.Found.Fence == it.Fence {
		return nil
	}
	return conflict
}

// onConflict returns other if err is a conflict, and else err.
func onConflict(err, other error) error {
	if errors.Is(err, table.ErrConflict) {
		return other
	}
	return err
}

// ofVersion is the condition of a write over a version of an item; empty: over none.
func (s *Store) ofVersion(version string) table.Cond {
	if version == "" {
		return table.Free(s.now())
	}
	return table.Fenced(version)
}

// conflictTries bounds how often a read-modify-write starts over.
const conflictTries = 10

// errContended says that others kept changing an item: trying later helps.
func errContended(k table.Key) error {
	return fmt.Errorf("%s %s kept changing under %d tries: %w", k.PK, k.SK, conflictTries, table.ErrConflict)
}

// found returns the item that a swap conflicted with.
func found(err error) (it *table.Item, conflict bool) {
	if c, ok := errors.AsType[*table.ConflictError](err); ok {
		return c.Found, true
	}
	return nil, false
}

// one returns the item of a key as live does.
func (s *Store) one(ctx context.Context, k table.Key) (*table.Item, table.Cond, error) {
	items, err := s.t.Get(ctx, k)
	it, cond := s.live(items, k)
	return it, cond, err
}

// find reads the JSON of a key's item into v. It returns nil if there is no item.
func (s *Store) find(ctx context.Context, k table.Key, v any) (*table.Item, table.Cond, error) {
	it, cond, err := s.one(ctx, k)
	if it != nil {
		err = decode(*it, v)
	}
	return it, cond, err
}

// page reads a range. It returns the items that have not expired, and the sort key to go on after,
// empty at the end.
func (s *Store) page(ctx context.Context, r table.Range) (items []table.Item, last string, err error) {
	items, more, err := s.t.Query(ctx, r)
	if more {
		last = items[len(items)-1].SK
	}
	return slices.DeleteFunc(items, s.expired), last, err
}

// after is the first sort key after another one; of none, the beginning of a range.
func after(sk string) string {
	if sk == "" {
		return ""
	}
	return sk + "\x00"
}

// live returns the item of a key unless it is missing or expired, and the condition of a write that
// replaces it.
func (s *Store) live(items map[table.Key]table.Item, k table.Key) (*table.Item, table.Cond) {
	it, ok := items[k]
	if !ok || s.expired(it) {
		return nil, table.Free(s.now())
	}
	return &it, table.Fenced(it.Fence)
}
