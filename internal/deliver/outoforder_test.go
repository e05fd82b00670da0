package deliver_test

import (
	"context"
	"sync/atomic"
	"time"

	"fedpost/internal/engine/table"
)

// outOfOrder returns a table whose every call fails while down is set.
func outOfOrder(t table.Table, down *atomic.Bool) table.Table { return broken{t, down} }

func (b broken) err() error {
	if b.down.Load() {
		return errDown
	}
	return nil
}

func (b broken) Get(ctx context.Context, keys ...table.Key) (map[table.Key]table.Item, error) {
	if err := b.err(); err != nil {
		return nil, err
	}
	return b.Table.Get(ctx, keys...)
}

func (b broken) Query(ctx context.Context, r table.Range) ([]table.Item, bool, error) {
	if err := b.err(); err != nil {
		return nil, false, err
	}
	return b.Table.Query(ctx, r)
}

func (b broken) Put(ctx context.Context, it table.Item, c table.Cond) error {
	if err := b.err(); err != nil {
		return err
	}
	return b.Table.Put(ctx, it, c)
}

func (b broken) Delete(ctx context.Context, k table.Key, c table.Cond) error {
	if err := b.err(); err != nil {
		return err
	}
	return b.Table.Delete(ctx, k, c)
}

func (b broken) PutAll(ctx context.Context, items []table.Item) error {
	if err := b.err(); err != nil {
		return err
	}
	return b.Table.PutAll(ctx, items)
}

func (b broken) DeleteAll(ctx context.Context, keys []table.Key) error {
	if err := b.err(); err != nil {
		return err
	}
	return b.Table.DeleteAll(ctx, keys)
}

func (b broken) Transact(ctx context.Context, ops []table.Op) error {
	if err := b.err(); err != nil {
		return err
	}
	return b.Table.Transact(ctx, ops)
}

func (b broken) Due(ctx context.Context, shard string, by time.Time, limit int) ([]table.Item, error) {
	if err := b.err(); err != nil {
		return nil, err
	}
	return b.Table.Due(ctx, shard, by, limit)
}
