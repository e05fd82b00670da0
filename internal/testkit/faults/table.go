package faults

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"fedpost/internal/engine/table"
)

// Table wraps t under a name.
func Table(in Interceptor, name string, t table.Table) table.Table { return &faultyTable{in, name, t} }

type faultyTable struct {
	in   Interceptor
	name string
	next table.Table
}

func (t *faultyTable) call(op string, entries int, about string) Call {
	return Call{Target: t.name, Op: op, Entries: entries, About: about}
}

// about identifies items, whatever their order: the first by its key, the others by a
// digest.
func about(keys []table.Key) string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.PK + " " + k.SK
	}
	slices.Sort(names)
	switch len(names) {
	case 0:
		return ""
	case 1:
		return names[0]
	}
	h := fnv.New32a()
	for _, n := range names[1:] {
		h.Write([]byte(n))
	}
	return fmt.Sprintf("%s +%08x", names[0], h.Sum32())
}

func (t *faultyTable) Get(ctx context.Context, keys ...table.Key) (map[table.Key]table.Item, error) {
	return result(ctx, t.in, t.call("Get", len(keys), about(keys)), func() (map[table.Key]table.Item, error) { return t.next.Get(ctx, keys...) })
}

func (t *faultyTable) Query(ctx context.Context, r table.Range) ([]table.Item, bool, error) {
	var more bool
	items, err := result(ctx, t.in, t.call("Query", 1, r.PK+" "+r.From+" "+r.To), func() (items []table.Item, err error) {
		items, more, err = t.next.Query(ctx, r)
		return items, err
	})
	return items, more && err == nil, err
}

func (t *faultyTable) Put(ctx context.Context, it table.Item, cond table.Cond) error {
	return t.in.Intercept(ctx, t.call("Put", 1, about([]table.Key{it.Key})), func(Fault) error { return t.next.Put(ctx, it, cond) })
}

func (t *faultyTable) Delete(ctx context.Context, k table.Key, cond table.Cond) error {
	return t.in.Intercept(ctx, t.call("Delete", 1, about([]table.Key{k})), func(Fault) error { return t.next.Delete(ctx, k, cond) })
}

// PutAll writes in the order of keys, so that half of the items are the same ones
// each time.
func (t *faultyTable) PutAll(ctx context.Context, items []table.Item) error {
	keys := make([]table.Key, len(items))
	for i, it := range items {
		keys[i] = it.Key
	}
	items = slices.SortedFunc(slices.Values(items), func(a, b table.Item) int { return cmp.Or(cmp.Compare(a.PK, b.PK), cmp.Compare(a.SK, b.SK)) })
	return t.in.Intercept(ctx, t.call("PutAll", len(items), about(keys)), func(f Fault) error {
		return t.next.PutAll(ctx, items[:f.half(len(items))])
	})
}

func (t *faultyTable) DeleteAll(ctx context.Context, keys []table.Key) error {
	return t.in.Intercept(ctx, t.call("DeleteAll", len(keys), about(keys)), func(f Fault) error {
		return t.next.DeleteAll(ctx, keys[:f.half(len(keys))])
	})
}

func (t *faultyTable) Transact(ctx context.Context, ops []table.Op) error {
	var keys []table.Key
	for _, op := range ops {
		if op.Put != nil {
			keys = append(keys, op.Put.Key)
		}
	}
	return t.in.Intercept(ctx, t.call("Transact", len(ops), about(keys)), func(Fault) error { return t.next.Transact(ctx, ops) })
}

func (t *faultyTable) Due(ctx context.Context, shard string, by time.Time, limit int) ([]table.Item, error) {
	return result(ctx, t.in, t.call("Due", 1, shard), func() ([]table.Item, error) { return t.next.Due(ctx, shard, by, limit) })
}
