package storetest

import (
	"context"
	"sync"
	"time"

	"fedpost/internal/engine/table"
)

// meter counts what the operations of a table cost as DynamoDB bills them:
// writes by the kilobyte begun, twice that in a transaction; strongly consistent
// reads by four, a query by what it read in all.
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/on-demand-capacity-mode.html
type meter struct {
	table.Table
	mu    sync.Mutex
	total cost
}

type cost struct{ writeUnits, readUnits, writes, reads int }

func (m *meter) add(c cost) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total.writeUnits += c.writeUnits
	m.total.readUnits += c.readUnits
	m.total.writes += c.writes
	m.total.reads += c.reads
}

// of returns what f costs.
func (m *meter) of(f func()) cost {
	m.mu.Lock()
	before := m.total
	m.mu.Unlock()
	f()
	m.mu.Lock()
	defer m.mu.Unlock()
	return cost{
		m.total.writeUnits - before.writeUnits, m.total.readUnits - before.readUnits,
		m.total.writes - before.writes, m.total.reads - before.reads,
	}
}

// billed is how many units so many bytes are.
func billed(bytes, unit int) int { return max(1, (bytes+unit-1)/unit) }

const (
	writeUnit = 1 << 10
	readUnit  = 4 << 10
)

func (m *meter) Get(ctx context.Context, keys ...table.Key) (map[table.Key]table.Item, error) {
	items, err := m.Table.Get(ctx, keys...)
	c := cost{reads: billed(len(keys), 100)}
	for _, k := range keys {
		if it, ok := items[k]; ok {
			c.readUnits += billed(it.Size(), readUnit)
		} else {
			c.readUnits++
		}
	}
	m.add(c)
	return items, err
}

func (m *meter) Query(ctx context.Context, r table.Range) ([]table.Item, bool, error) {
	items, more, err := m.Table.Query(ctx, r)
	bytes := 0
	for _, it := range items {
		bytes += it.Size()
	}
	m.add(cost{reads: billed(bytes, 1<<20), readUnits: billed(bytes, readUnit)})
	return items, more, err
}

func (m *meter) Put(ctx context.Context, it table.Item, cond table.Cond) error {
	m.add(cost{writes: 1, writeUnits: billed(it.Size(), writeUnit)})
	return m.Table.Put(ctx, it, cond)
}

func (m *meter) Delete(ctx context.Context, k table.Key, cond table.Cond) error {
	m.add(cost{writes: 1, writeUnits: 1})
	return m.Table.Delete(ctx, k, cond)
}

func (m *meter) PutAll(ctx context.Context, items []table.Item) error {
	c := cost{writes: (len(items) + 24) / 25}
	for _, it := range items {
		c.writeUnits += billed(it.Size(), writeUnit)
	}
	m.add(c)
	return m.Table.PutAll(ctx, items)
}

func (m *meter) DeleteAll(ctx context.Context, keys []table.Key) error {
	m.add(cost{writes: (len(keys) + 24) / 25, writeUnits: len(keys)})
	return m.Table.DeleteAll(ctx, keys)
}

func (m *meter) Transact(ctx context.Context, ops []table.Op) error {
	c := cost{writes: 1}
	for _, op := range ops {
		if op.Put != nil {
			c.writeUnits += 2 * billed(op.Put.Size(), writeUnit)
		} else {
			c.writeUnits += 2
		}
	}
	m.add(c)
	return m.Table.Transact(ctx, ops)
}

func (m *meter) Due(ctx context.Context, shard string, by time.Time, limit int) ([]table.Item, error) {
	m.add(cost{reads: 1, readUnits: 1})
	return m.Table.Due(ctx, shard, by, limit)
}
