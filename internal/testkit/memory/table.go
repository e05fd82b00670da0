package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"fedpost/internal/engine/table"
)

type tbl struct{ *Engine }

// Get implements table.Table.
func (t *tbl) Get(ctx context.Context, keys ...table.Key) (map[table.Key]table.Item, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	found := make(map[table.Key]table.Item, len(keys))
	for _, k := range keys {
		if err := k.Check(); err != nil {
			return nil, fmt.Errorf("get: %w", err)
		}
		if it, ok := t.items[k]; ok {
			found[k] = copied(it)
		}
	}
	return found, nil
}

// Query implements table.Table.
func (t *tbl) Query(ctx context.Context, r table.Range) ([]table.Item, bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var items []table.Item
	sks := t.parts[r.PK]
	from, _ := slices.BinarySearch(sks, r.From)
	to := len(sks)
	if r.To != "" {
		to, _ = slices.BinarySearch(sks, r.To)
	}
	sks = sks[from:max(from, to)]
	for i := range sks {
		sk := sks[i]
		if r.Newest {
			sk = sks[len(sks)-1-i]
		}
		if r.Limit > 0 && len(items) == r.Limit {
			return items, true, nil
		}
		items = append(items, copied(t.items[table.Key{PK: r.PK, SK: sk}]))
	}
	return items, false, nil
}

// Due implements table.Table.
func (t *tbl) Due(ctx context.Context, shard string, by time.Time, limit int) ([]table.Item, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var items []table.Item
	for k, d := range t.due {
		if d.Shard == shard && !d.At.After(by) {
			items = append(items, copied(t.items[k]))
		}
	}
	slices.SortFunc(items, func(a, b table.Item) int {
		return cmp.Or(a.Due.At.Compare(b.Due.At), cmp.Compare(a.PK, b.PK), cmp.Compare(a.SK, b.SK))
	})
	if limit > 0 && len(items) > limit {
		items = items[:limit]
	}
	return items, nil
}

// Put implements table.Table.
func (t *tbl) Put(ctx context.Context, it table.Item, cond table.Cond) error {
	return t.Transact(ctx, []table.Op{{Put: &it, Cond: cond}})
}

// Delete implements table.Table.
func (t *tbl) Delete(ctx context.Context, k table.Key, cond table.Cond) error {
	return t.Transact(ctx, []table.Op{{Delete: &k, Cond: cond}})
}

// Transact implements table.Table.
func (t *tbl) Transact(ctx context.Context, ops []table.Op) error {
	if err := table.CheckOps(ops); err != nil || len(ops) == 0 {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, op := range ops {
		k := keyOf(op)
		var found *table.Item
		if it, ok := t.items[k]; ok {
			it = copied(it)
			found = &it
		}
		if !op.Cond.Holds(found) {
			return fmt.Errorf("write to the table: %w", &table.ConflictError{Key: k, Found: found})
		}
	}
	for _, op := range ops {
		switch {
		case op.Put != nil && op.Put.Unsynced && len(ops) == 1:
			t.putUnsynced(*op.Put)
		case op.Put != nil:
			t.put(*op.Put)
		case op.Delete != nil:
			t.remove(*op.Delete)
		}
	}
	return nil
}

func keyOf(op table.Op) table.Key {
	switch {
	case op.Put != nil:
		return op.Put.Key
	case op.Delete != nil:
		return *op.Delete
	}
	return *op.Check
}

// PutAll implements table.Table.
func (t *tbl) PutAll(ctx context.Context, items []table.Item) error {
	for _, it := range items {
		if err := it.Check(); err != nil {
			return fmt.Errorf("write to the table: %w", err)
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, it := range items {
		t.put(it)
	}
	return nil
}

// DeleteAll implements table.Table.
func (t *tbl) DeleteAll(ctx context.Context, keys []table.Key) error {
	for _, k := range keys {
		if err := k.Check(); err != nil {
			return fmt.Errorf("delete from the table: %w", err)
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range keys {
		t.remove(k)
	}
	return nil
}

func (t *tbl) putUnsynced(it table.Item) {
	before, was := t.items[it.Key]
	undo := append(t.undo, func() {
		if was {
			t.put(before)
		} else {
			t.remove(it.Key)
		}
	})
	t.put(it)
	t.undo = undo
}

func (t *tbl) put(it table.Item) {
	t.undo = nil
	it = copied(it)
	it.Unsynced = false
	if _, ok := t.items[it.Key]; !ok {
		sks := t.parts[it.PK]
		at, _ := slices.BinarySearch(sks, it.SK)
		t.parts[it.PK] = slices.Insert(sks, at, it.SK)
	}
	t.items[it.Key] = it
	t.index(it.Key, it.Due)
}

func (t *tbl) remove(k table.Key) {
	if _, ok := t.items[k]; !ok {
		return
	}
	t.undo = nil
	delete(t.items, k)
	sks := t.parts[k.PK]
	at, _ := slices.BinarySearch(sks, k.SK)
	if sks = slices.Delete(sks, at, at+1); len(sks) == 0 {
		delete(t.parts, k.PK)
	} else {
		t.parts[k.PK] = sks
	}
	t.index(k, table.Due{})
}

func (t *tbl) index(k table.Key, d table.Due) {
	before, was := t.due[k]
	switch {
	case d.Shard != "":
		t.due[k] = d
	case was:
		delete(t.due, k)
	}
	if t.known && (was && !before.At.After(t.dueNext) || d.Shard != "" && (t.dueNext.IsZero() || d.At.Before(t.dueNext))) {
		t.known = false
	}
}

// copied returns a deep copy of it, so that the caller cannot change stored items.
func copied(it table.Item) table.Item {
	it.Data = bytes.Clone(it.Data)
	if it.Data == nil {
		it.Data = []byte{}
	}
	if !it.Expires.IsZero() {
		it.Expires = it.Expires.UTC().Round(0)
	}
	if it.Due.Shard == "" {
		it.Due = table.Due{}
	} else {
		it.Due.At = it.Due.At.UTC().Round(0)
	}
	return it
}

// Sweep deletes the items that expired before a time, and the messages whose retention
// has ended.
func (e *Engine) Sweep(before time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := &tbl{e}
	for k, it := range e.items {
		if !it.Expires.IsZero() && !it.Expires.After(before) {
			t.remove(k)
		}
	}
	for _, q := range e.queues {
		for _, m := range q.all {
			if !m.sent.After(e.now().Add(-q.config.Retention)) {
				q.drop(m)
			}
		}
	}
}

// Items lists the items whose partition key begins with a prefix, in order.
func (e *Engine) Items(prefix string) []table.Item {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []table.Item
	for k, it := range e.items {
		if len(k.PK) >= len(prefix) && k.PK[:len(prefix)] == prefix {
			all = append(all, it)
		}
	}
	slices.SortFunc(all, func(a, b table.Item) int { return cmp.Or(cmp.Compare(a.PK, b.PK), cmp.Compare(a.SK, b.SK)) })
	return all
}
