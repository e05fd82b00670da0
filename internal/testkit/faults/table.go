package faults

import (
	"context"
	"time"

	"fedpost/internal/engine/table"
)

// Table wraps t under a name.
func Table(p *Plan, name string, t table.Table) table.Table { return &faultyTable{p, name, t} }

type faultyTable struct {
	plan *Plan
	name string
	next table.Table
}

func (t *faultyTable) Get(ctx context.Context, keys ...table.Key) (map[table.Key]table.Item, error) {
	return result(t.plan, t.name, "Get", len(keys), func() (map[table.Key]table.Item, error) { return t.next.Get(ctx, keys...) })
}

func (t *faultyTable) Query(ctx context.Context, r table.Range) ([]table.Item, bool, error) {
	var more bool
	items, err := result(t.plan, t.name, "Query", 1, func() (items []table.Item, err error) {
		items, more, err = t.next.Query(ctx, r)
		return items, err
	})
	return items, more && err == nil, err
}

func (t *faultyTable) Put(ctx context.Context, it table.Item, cond table.Cond) error {
	return t.plan.Do(t.name, "Put", func() error { return t.next.Put(ctx, it, cond) })
}

func (t *faultyTable) Delete(ctx context.Context, k table.Key, cond table.Cond) error {
	return t.plan.Do(t.name, "Delete", func() error { return t.next.Delete(ctx, k, cond) })
}

func (t *faultyTable) PutAll(ctx context.Context, items []table.Item) error {
	_, err := t.plan.do(t.name, "PutAll", len(items), func(f Fault) error {
		return t.next.PutAll(ctx, items[:f.half(len(items))])
	})
	return err
}

func (t *faultyTable) DeleteAll(ctx context.Context, keys []table.Key) error {
	_, err := t.plan.do(t.name, "DeleteAll", len(keys), func(f Fault) error {
		return t.next.DeleteAll(ctx, keys[:f.half(len(keys))])
	})
	return err
}

func (t *faultyTable) Transact(ctx context.Context, ops []table.Op) error {
	_, err := t.plan.do(t.name, "Transact", len(ops), func(Fault) error { return t.next.Transact(ctx, ops) })
	return err
}

func (t *faultyTable) Due(ctx context.Context, shard string, by time.Time, limit int) ([]table.Item, error) {
	return result(t.plan, t.name, "Due", 1, func() ([]table.Item, error) { return t.next.Due(ctx, shard, by, limit) })
}
