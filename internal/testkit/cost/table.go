package cost

import (
	"context"
	"time"

	"fedpost/internal/engine/table"
)

// How DynamoDB bills: a write costs one unit per kilobyte begun, twice that in a
// transaction, and the same once more for an item in the due index. A strongly
// consistent read costs one unit per four kilobytes; a query is billed for the sum of
// the items that it read.
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/on-demand-capacity-mode.html
const (
	writeUnit = 1 << 10
	readUnit  = 4 << 10
)

// DynamoDB limits the entries of these requests.
const (
	maxGets   = 100
	maxWrites = 25
	maxPage   = 1 << 20
)

// EstimateTable counts the calls of t as requests to DynamoDB. A write whose condition
// fails is billed like one that succeeds.
//
// The deletion of an item from the due index is not counted: the port does not see
// when an item leaves the index.
func EstimateTable(c *Estimate, t table.Table) table.Table { return &countedTable{t, c} }

type countedTable struct {
	table.Table
	c *Estimate
}

func (t *countedTable) read(operation string, requests, readUnits int, err error) {
	t.call(operation, Usage{Requests: requests, ReadUnits: float64(readUnits)}, err)
}

func (t *countedTable) write(operation string, requests, writeUnits int, err error) {
	t.call(operation, Usage{Requests: requests, WriteUnits: float64(writeUnits)}, err)
}

func (t *countedTable) call(operation string, u Usage, err error) {
	if err != nil {
		u.Failures = 1
	}
	t.c.add("DynamoDB", operation, u)
}

// put returns the write units for one item.
func put(it table.Item) int {
	n := unitsBegun(it.Size(), writeUnit)
	if it.Due.Shard != "" {
		n *= 2
	}
	return n
}

func (t *countedTable) Get(ctx context.Context, keys ...table.Key) (map[table.Key]table.Item, error) {
	items, err := t.Table.Get(ctx, keys...)
	n := 0
	for _, k := range keys {
		n += unitsBegun(items[k].Size(), readUnit)
	}
	if len(keys) == 1 {
		t.read("GetItem", 1, n, err)
	} else {
		t.read("BatchGetItem", unitsBegun(len(keys), maxGets), n, err)
	}
	return items, err
}

func (t *countedTable) Query(ctx context.Context, r table.Range) ([]table.Item, bool, error) {
	items, more, err := t.Table.Query(ctx, r)
	bytes := 0
	for _, it := range items {
		bytes += it.Size()
	}
	t.read("Query", unitsBegun(bytes, maxPage), unitsBegun(bytes, readUnit), err)
	return items, more, err
}

func (t *countedTable) Put(ctx context.Context, it table.Item, cond table.Cond) error {
	err := t.Table.Put(ctx, it, cond)
	t.write("PutItem", 1, put(it), err)
	return err
}

func (t *countedTable) Delete(ctx context.Context, k table.Key, cond table.Cond) error {
	err := t.Table.Delete(ctx, k, cond)
	t.write("DeleteItem", 1, 1, err)
	return err
}

func (t *countedTable) PutAll(ctx context.Context, items []table.Item) error {
	err := t.Table.PutAll(ctx, items)
	n := 0
	for _, it := range items {
		n += put(it)
	}
	t.write("BatchWriteItem", unitsBegun(len(items), maxWrites), n, err)
	return err
}

func (t *countedTable) DeleteAll(ctx context.Context, keys []table.Key) error {
	err := t.Table.DeleteAll(ctx, keys)
	t.write("BatchWriteItem", unitsBegun(len(keys), maxWrites), len(keys), err)
	return err
}

func (t *countedTable) Transact(ctx context.Context, ops []table.Op) error {
	err := t.Table.Transact(ctx, ops)
	n := 0
	for _, op := range ops {
		switch {
		case op.Put != nil && len(ops) > 1:
			n += 2 * put(*op.Put)
		case op.Put != nil:
			n += put(*op.Put)
		default:
			n += min(2, len(ops))
		}
	}
	t.write("TransactWriteItems", 1, n, err)
	return err
}

// Due reads an index, which is eventually consistent: half a unit per 4 KB.
func (t *countedTable) Due(ctx context.Context, shard string, by time.Time, limit int) ([]table.Item, error) {
	items, err := t.Table.Due(ctx, shard, by, limit)
	bytes := 0
	for _, it := range items {
		bytes += it.Size()
	}
	t.call("Query", Usage{Requests: unitsBegun(bytes, maxPage), ReadUnits: float64(unitsBegun(bytes, readUnit)) / 2}, err)
	return items, err
}
