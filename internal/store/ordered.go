package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
)

// slot is what the table has under one derived id.
type slot struct {
	record ledger.Record // of the activity; its id is another one if it moved
	taken  bool
	cond   table.Cond  // of a write that takes the slot
	gone   activity.ID // the id that a pointer names, if that id's record was dropped
}

// CreateOrdered implements ledger.Store.
//
// Two callers with the same key, one before and one after a period ends, write under different ids.
// A condition on its own id does not show either the other. So the later caller also takes the
// previous id, if that is free: one transaction writes the record under the new id, and under the
// previous id a pointer to it. The earlier caller then fails on its own condition, and follows the
// pointer.
func (s *Store) CreateOrdered(ctx context.Context, r ledger.Record, prev activity.ID, since time.Time, contested bool) (ledger.Record, bool, error) {
	it, err := packRecord(r)
	if err != nil {
		return ledger.Record{}, false, err
	}
	for range conflictTries {
		items, err := s.t.Get(ctx, recordKey(prev), recordKey(r.ID))
		if err != nil {
			return ledger.Record{}, false, fmt.Errorf("read activity %s: %w", r.ID, err)
		}
		before, err := s.slot(ctx, items, prev)
		if err != nil {
			return ledger.Record{}, false, err
		}
		own, err := s.slot(ctx, items, r.ID)
		if err != nil {
			return ledger.Record{}, false, err
		}
		if before.taken && !before.record.CreatedAt.Before(since) {
			if own.taken && own.record.Fingerprint == r.Fingerprint && before.record.Fingerprint != r.Fingerprint {
				return own.record, false, nil // the other was accepted without the table
			}
			return before.record, false, nil
		}
		if own.taken {
			return own.record, false, nil
		}
		if !contested || before.taken {
			before = slot{taken: true}
		}
		err = s.take(ctx, it, own, prev, before)
		if err == nil {
			return r, true, nil
		}
		if !errors.Is(err, table.ErrConflict) {
			return ledger.Record{}, false, fmt.Errorf("record activity %s: %w", r.ID, err)
		}
	}
	return ledger.Record{}, false, errContended(recordKey(r.ID))
}

// take writes it into its own slot and, if the previous slot is free, a pointer to it
// into that.
func (s *Store) take(ctx context.Context, it table.Item, own slot, prev activity.ID, before slot) error {
	if before.taken && own.gone == "" {
		return s.swap(ctx, &it, own.cond)
	}
	it.Fence = newFence()
	ops := []table.Op{{Put: &it, Cond: own.cond}}
	if own.gone != "" {
		k := recordKey(own.gone)
		ops = append(ops, table.Op{Check: &k, Cond: table.Free(s.now())})
	}
	if !before.taken {
		id := activity.ID(it.PK[len(activityPK("")):])
		sign, err := activityPacking.item(recordKey(prev), recordItem{Moved: id}, it.Expires)
		if err != nil {
			return err
		}
		sign.Fence = newFence()
		ops = append(ops, table.Op{Put: &sign, Cond: before.cond})
		if before.gone != "" && before.gone != id {
			k := recordKey(before.gone)
			ops = append(ops, table.Op{Check: &k, Cond: table.Free(s.now())})
		}
	}
	return s.t.Transact(ctx, ops)
}

// slot returns what is under a derived id, whose item is in items.
func (s *Store) slot(ctx context.Context, items map[table.Key]table.Item, id activity.ID) (slot, error) {
	it, cond := s.live(items, recordKey(id))
	if it == nil {
		return slot{cond: cond}, nil
	}
	r, moved, err := unpackRecord(id, *it)
	if err != nil || moved == "" {
		return slot{record: r, taken: true, cond: cond}, err
	}
	// The record is read after the pointer: one transaction wrote both, so a caller
	// that has seen the pointer finds the record.
	k := recordKey(moved)
	if items, err = s.t.Get(ctx, k); err != nil {
		return slot{}, fmt.Errorf("read activity %s: %w", moved, err)
	}
	target, _ := s.live(items, k)
	if target == nil {
		return slot{cond: cond, gone: moved}, nil
	}
	r, _, err = unpackRecord(moved, *target)
	return slot{record: r, taken: true, cond: cond}, err
}
