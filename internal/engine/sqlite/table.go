package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"fedpost/internal/engine/table"
)

type tbl struct{ *Engine }

const selectItem = `SELECT pk, sk, fence, data, expires, coalesce(due_shard, ''), due_at FROM item `

func (t *tbl) Get(ctx context.Context, keys ...table.Key) (map[table.Key]table.Item, error) {
	if err := table.CheckAll(keys); err != nil {
		return nil, fmt.Errorf("get: %w", err)
	}
	var found map[table.Key]table.Item
	read := t.read
	if len(keys) <= little {
		read = t.readSoon
	}
	err := read(ctx, func(s *session) error {
		found = make(map[table.Key]table.Item, len(keys))
		for _, k := range keys {
			it, err := load(s, k)
			if err != nil {
				return err
			}
			if it != nil {
				found[k] = *it
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("get: %w", err)
	}
	return found, nil
}

// little is how many items may be read on the writer's session: writes wait meanwhile.
const little = 16

func (t *tbl) Query(ctx context.Context, r table.Range) ([]table.Item, bool, error) {
	query, args := selectItem+`WHERE pk = ? AND sk >= ? `, []any{r.PK, r.From}
	if r.To != "" {
		query, args = query+`AND sk < ? `, append(args, r.To)
	}
	limit := -1
	if r.Limit > 0 {
		limit = r.Limit + 1
	}
	order := `ORDER BY sk `
	if r.Newest {
		order = `ORDER BY sk DESC `
	}
	items, err := t.some(ctx, query+order, args, limit)
	if err != nil {
		return nil, false, fmt.Errorf("query %s: %w", r.PK, err)
	}
	if r.Limit > 0 && len(items) > r.Limit {
		return items[:r.Limit], true, nil
	}
	return items, false, nil
}

// some lists up to limit items, or all if limit is negative. A query that finds
// little runs on the writer's session, and one that finds more is repeated on a reader's.
func (t *tbl) some(ctx context.Context, query string, args []any, limit int) ([]table.Item, error) {
	query += `LIMIT ? + 0`
	first := limit
	if limit < 0 || limit > little {
		first = little + 1
	}
	items, err := t.list(ctx, t.readSoon, query, append(slices.Clone(args), first)...)
	if err != nil || first == limit || len(items) <= little {
		return items, err
	}
	return t.list(ctx, t.read, query, append(args, limit)...)
}

// Partitions returns the partitions whose names begin with a prefix that is not empty, in
// order. The port has no such verb, as DynamoDB would have to read the whole table.
func (e *Engine) Partitions(ctx context.Context, prefix string) (all []string, err error) {
	r := table.Prefix("", prefix)
	err = e.read(ctx, func(s *session) error {
		all = nil
		return s.each(`SELECT DISTINCT pk FROM item WHERE pk >= ? AND pk < ? ORDER BY pk`, []any{r.From, r.To}, func(scan func(...any) error) error {
			all = append(all, "")
			return scan(&all[len(all)-1])
		})
	})
	if err != nil {
		return nil, fmt.Errorf("partitions of %s: %w", prefix, err)
	}
	return all, nil
}

func (t *tbl) Due(ctx context.Context, shard string, by time.Time, limit int) ([]table.Item, error) {
	if limit <= 0 {
		limit = -1
	}
	items, err := t.list(ctx, t.read, selectItem+`WHERE due_shard = ? AND due_at <= ? ORDER BY due_at LIMIT ? + 0`, shard, table.Nanos(by), limit)
	if err != nil {
		return nil, fmt.Errorf("due items of %s: %w", shard, err)
	}
	return items, nil
}

func (t *tbl) Put(ctx context.Context, it table.Item, cond table.Cond) error {
	return t.Transact(ctx, []table.Op{{Put: &it, Cond: cond}})
}

func (t *tbl) Delete(ctx context.Context, k table.Key, cond table.Cond) error {
	return t.Transact(ctx, []table.Op{{Delete: &k, Cond: cond}})
}

func (t *tbl) Transact(ctx context.Context, ops []table.Op) error {
	if err := table.CheckOps(ops); err != nil || len(ops) == 0 {
		return err
	}
	write := t.write
	if !slices.ContainsFunc(ops, func(op table.Op) bool { return op.Put == nil || !op.Put.Unsynced }) {
		write = t.writeUnsynced
	}
	err := write(ctx, func(s *session) error {
		for _, op := range ops {
			if err := apply(s, op); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write to the table: %w", err)
	}
	return nil
}

// step is how many items PutAll and DeleteAll write in one transaction, so that
// a long list does not hold up other writers.
const step = 100

func (t *tbl) PutAll(ctx context.Context, items []table.Item) error {
	if err := table.CheckAll(items); err != nil {
		return fmt.Errorf("write to the table: %w", err)
	}
	return inSteps(ctx, t.Engine, items, put)
}

func (t *tbl) DeleteAll(ctx context.Context, keys []table.Key) error {
	if err := table.CheckAll(keys); err != nil {
		return fmt.Errorf("delete from the table: %w", err)
	}
	return inSteps(ctx, t.Engine, keys, remove)
}

func inSteps[T any](ctx context.Context, e *Engine, all []T, do func(*session, T) error) error {
	for len(all) > 0 {
		some := all[:min(step, len(all))]
		all = all[len(some):]
		err := e.write(ctx, func(s *session) error {
			for _, one := range some {
				if err := do(s, one); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("write to the table: %w", err)
		}
	}
	return nil
}
