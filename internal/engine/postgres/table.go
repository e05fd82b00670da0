package postgres

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"fedpost/internal/engine/table"
)

type tbl struct{ *Engine }

const columnsOfItem = `i.pk, i.long_pk, i.sk, i.fence, i.data, i.expires, i.due_shard, i.due_at`

// PostgreSQL plans getItems for each call, as it cannot know how many keys come; a plan of
// getItem is kept.
const (
	getItem  = `SELECT ` + columnsOfItem + ` FROM fedpost.item i WHERE pk = $1 AND sk = $2`
	getItems = `SELECT ` + columnsOfItem + ` FROM unnest($1::bytea[], $2::bytea[]) AS k (pk, sk), LATERAL (
  SELECT * FROM fedpost.item WHERE pk = k.pk AND sk = k.sk LIMIT 1
) i`
)

const (
	// step is how many items one statement reads or writes, so that a long list does not hold
	// up others.
	step = 100
	// few is how many items share a round trip with other calls, in a statement each. More have
	// statements for many items and, to write them, a transaction of their own.
	few = 8
)

func (t *tbl) Get(ctx context.Context, keys ...table.Key) (map[table.Key]table.Item, error) {
	if err := table.CheckAll(keys); err != nil {
		return nil, fmt.Errorf("get: %w", err)
	}
	found := make(map[table.Key]table.Item, len(keys))
	for some := range slices.Chunk(keys, step) {
		pks, sks := columnsOfKeys(some)
		queries := []query{{getItems, []any{pks, sks}}}
		if len(some) <= few {
			queries = nil
			for _, k := range some {
				queries = append(queries, query{getItem, []any{partition(k.PK), []byte(k.SK)}})
			}
		}
		items, err := t.list(ctx, queries...)
		if err != nil {
			return nil, fmt.Errorf("get: %w", err)
		}
		for _, it := range items {
			found[it.Key] = it
		}
	}
	return found, nil
}

func (t *tbl) Query(ctx context.Context, r table.Range) ([]table.Item, bool, error) {
	statement, args := `SELECT `+columnsOfItem+` FROM fedpost.item i WHERE pk = $1 AND sk >= $2 `, []any{partition(r.PK), []byte(r.From)}
	if r.To != "" {
		statement, args = statement+`AND sk < $3 `, append(args, []byte(r.To))
	}
	statement += `ORDER BY sk `
	if r.Newest {
		statement += `DESC `
	}
	if r.Limit > 0 {
		args = append(args, r.Limit+1)
		statement += fmt.Sprintf(`LIMIT $%d`, len(args))
	}
	items, err := t.list(ctx, query{statement, args})
	if err != nil {
		return nil, false, fmt.Errorf("query %s: %w", r.PK, err)
	}
	if r.Limit > 0 && len(items) > r.Limit {
		return items[:r.Limit], true, nil
	}
	return items, false, nil
}

func (t *tbl) Due(ctx context.Context, shard string, by time.Time, limit int) ([]table.Item, error) {
	args, bounded := []any{[]byte(shard), table.Nanos(by)}, ``
	if limit > 0 {
		args, bounded = append(args, limit), ` LIMIT $3`
	}
	items, err := t.list(ctx, query{`SELECT ` + columnsOfItem + ` FROM fedpost.item i WHERE due_shard = $1 AND due_at <= $2 ORDER BY due_at` + bounded, args})
	if err != nil {
		return nil, fmt.Errorf("due items of %s: %w", shard, err)
	}
	return items, nil
}

// query is a statement that reads items.
type query struct {
	statement string
	args      []any
}

func (t *tbl) list(ctx context.Context, queries ...query) (items []table.Item, err error) {
	err = t.reads.submit(ctx, "", func(b *pgx.Batch) {
		items = nil
		for _, q := range queries {
			b.Queue(t.sql(q.statement), q.args...).Query(func(rows pgx.Rows) (err error) {
				items, err = pgx.AppendRows(items, rows, scanItem)
				return err
			})
		}
	})
	return items, err
}

func (t *tbl) Put(ctx context.Context, it table.Item, cond table.Cond) error {
	return t.Transact(ctx, []table.Op{{Put: &it, Cond: cond}})
}

func (t *tbl) Delete(ctx context.Context, k table.Key, cond table.Cond) error {
	return t.Transact(ctx, []table.Op{{Delete: &k, Cond: cond}})
}

// Transact implements table.Table. If a condition fails, nothing is written, and what was found is
// not known. So the item is read again; if the condition holds of it, another writer came in
// between, and the transaction starts anew.
func (t *tbl) Transact(ctx context.Context, ops []table.Op) error {
	if err := table.CheckOps(ops); err != nil || len(ops) == 0 {
		return err
	}
	for {
		failed, err := t.apply(ctx, ops)
		if err != nil {
			return fmt.Errorf("write to the table: %w", err)
		}
		if len(failed) == 0 {
			return nil
		}
		keys := make([]table.Key, 0, len(failed))
		for _, op := range failed {
			keys = append(keys, op.Key())
		}
		found, err := t.Get(ctx, keys...)
		if err != nil {
			return fmt.Errorf("write to the table: %w", err)
		}
		for _, op := range failed {
			var stored *table.Item
			if it, ok := found[op.Key()]; ok {
				stored = &it
			}
			switch holds := op.Cond.Holds(stored); {
			case !holds:
				return fmt.Errorf("write to the table: %w", &table.ConflictError{Key: op.Key(), Found: stored})
			case stored == nil && op.Delete != nil && len(ops) == 1:
				return nil // there was nothing to delete, as the condition allows
			}
		}
	}
}

// apply does all ops, or returns those whose condition failed. One op shares a transaction
// with the writes of other calls; several have one of their own, which is undone if one fails.
func (t *tbl) apply(ctx context.Context, ops []table.Op) (failed []table.Op, err error) {
	if len(ops) == 1 {
		var n int64
		err := t.writes.submit(ctx, lockOfItem(ops[0].Key()), func(b *pgx.Batch) { n = 0; t.queueOp(b, ops[0], &n) })
		if err != nil || n > 0 {
			return nil, err
		}
		return ops, nil
	}
	ops = slices.Clone(ops)
	slices.SortFunc(ops, func(a, b table.Op) int {
		return bytes.Compare([]byte(lockOfItem(a.Key())), []byte(lockOfItem(b.Key())))
	})
	err = t.transact(ctx, func(x *tx) error {
		failed = nil
		done := make([]int64, len(ops))
		err := x.run(func(b *pgx.Batch) {
			for i, op := range ops {
				t.queueOp(b, op, &done[i])
			}
		})
		if err != nil {
			return err
		}
		for i, op := range ops {
			if done[i] == 0 {
				failed = append(failed, op)
			}
		}
		if len(failed) > 0 {
			return errFailed
		}
		return nil
	})
	if errors.Is(err, errFailed) {
		return failed, nil
	}
	return nil, err
}

var errFailed = errors.New("a condition failed")

// lockOfItem orders the ops of a transaction by the rows that they lock.
func lockOfItem(k table.Key) string { return "item " + k.PK + "\x00" + k.SK }

const (
	insertItem = `INSERT INTO fedpost.item AS i (pk, sk, long_pk, fence, data, expires, due_shard, due_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) `
	updateItem = `long_pk = $3, fence = $4, data = $5, expires = $6, due_shard = $7, due_at = $8 `
	replace    = `ON CONFLICT (pk, sk) DO UPDATE SET long_pk = excluded.long_pk, fence = excluded.fence, data = excluded.data,
		expires = excluded.expires, due_shard = excluded.due_shard, due_at = excluded.due_at `

	deleteItem = `DELETE FROM fedpost.item WHERE pk = $1 AND sk = $2`
	checkItem  = `SELECT FROM fedpost.item i WHERE pk = $1 AND sk = $2 AND `
)

// holds is the condition on a stored item, whose arguments are $first and the next.
func holds(first int) string {
	return fmt.Sprintf(`(i.expires <= $%d::bigint OR i.fence = $%d::bytea) `, first, first+1)
}

// queueOp adds an op to a transaction. done is how many rows its condition held of.
func (t *tbl) queueOp(b *pgx.Batch, op table.Op, done *int64) {
	k := op.Key()
	pk, sk := partition(k.PK), []byte(k.SK)
	var by *int64
	var fence []byte
	if !op.Cond.ExpiredBy.IsZero() {
		n := table.Nanos(op.Cond.ExpiredBy)
		by = &n
	}
	if op.Cond.Fence != "" {
		fence = []byte(op.Cond.Fence)
	}
	conditional := by != nil || fence != nil
	switch {
	case op.Put != nil:
		c := values(*op.Put)
		switch {
		case op.Cond.Always():
			b.Queue(t.sql(insertItem+replace), c...).Exec(affected(done))
		case op.Cond.Absent && !conditional:
			b.Queue(t.sql(insertItem+`ON CONFLICT (pk, sk) DO NOTHING`), c...).Exec(affected(done))
		case op.Cond.Absent:
			b.Queue(t.sql(insertItem+replace+`WHERE `+holds(9)), append(c, by, fence)...).Exec(affected(done))
		default:
			b.Queue(t.sql(`UPDATE fedpost.item i SET `+updateItem+`WHERE pk = $1 AND sk = $2 AND `+holds(9)), append(c, by, fence)...).Exec(affected(done))
		}
	case op.Delete != nil && op.Cond.Always():
		b.Queue(t.sql(deleteItem), pk, sk).Exec(func(pgconn.CommandTag) error { *done = 1; return nil })
	case op.Delete != nil && !op.Cond.Absent:
		b.Queue(t.sql(`DELETE FROM fedpost.item i WHERE pk = $1 AND sk = $2 AND `+holds(3)), pk, sk, by, fence).Exec(affected(done))
	case op.Delete == nil && op.Cond.Always():
		b.Queue(`SELECT`).Exec(func(pgconn.CommandTag) error { *done = 1; return nil })
	default:
		t.queueAbsent(b, op, pk, sk, by, fence, done)
	}
}

// queueAbsent adds a delete or a check whose condition allows that there is no item. What is
// not there cannot be locked, so an item is put in its place until the transaction ends:
// whoever puts one meanwhile waits.
func (t *tbl) queueAbsent(b *pgx.Batch, op table.Op, pk, sk []byte, by *int64, fence []byte, done *int64) {
	stand := []byte(rand.Text())
	if op.Cond.Absent {
		b.Queue(t.sql(`INSERT INTO fedpost.item (pk, sk, fence, data) VALUES ($1, $2, $3, '') ON CONFLICT (pk, sk) DO NOTHING`), pk, sk, stand)
	}
	if op.Delete != nil {
		b.Queue(t.sql(`DELETE FROM fedpost.item i WHERE pk = $1 AND sk = $2 AND (`+holds(3)+`OR i.fence = $5)`), pk, sk, by, fence, stand).Exec(affected(done))
		return
	}
	b.Queue(t.sql(checkItem+`(`+holds(3)+`OR i.fence = $5) FOR UPDATE`), pk, sk, by, fence, stand).Exec(affected(done))
	if op.Cond.Absent {
		b.Queue(t.sql(`DELETE FROM fedpost.item WHERE pk = $1 AND sk = $2 AND fence = $3`), pk, sk, stand)
	}
}

func affected(n *int64) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error { *n = tag.RowsAffected(); return nil }
}

const (
	putItems = `INSERT INTO fedpost.item AS i (pk, sk, long_pk, fence, data, expires, due_shard, due_at)
		SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bigint[], $7::bytea[], $8::bigint[]) ` + replace
	deleteItems = `DELETE FROM fedpost.item WHERE ctid = ANY (ARRAY(
		SELECT i.ctid FROM unnest($1::bytea[], $2::bytea[]) AS k (pk, sk) JOIN fedpost.item i ON i.pk = k.pk AND i.sk = k.sk
		ORDER BY i.pk, i.sk FOR UPDATE OF i))`
)

func (t *tbl) PutAll(ctx context.Context, items []table.Item) error {
	if err := table.CheckAll(items); err != nil {
		return fmt.Errorf("write to the table: %w", err)
	}
	items = slices.Clone(items)
	slices.SortFunc(items, func(a, b table.Item) int {
		return bytes.Compare([]byte(lockOfItem(a.Key)), []byte(lockOfItem(b.Key)))
	})
	if len(items) <= few {
		var parts []part
		for _, it := range items {
			parts = append(parts, part{lockOfItem(it.Key), func(b *pgx.Batch) { b.Queue(t.sql(insertItem+replace), values(it)...) }})
		}
		if err := t.writes.submitAll(ctx, parts); err != nil {
			return fmt.Errorf("write to the table: %w", err)
		}
		return nil
	}
	for some := range slices.Chunk(items, step) {
		var pks, sks, longs, fences, datas, shards [][]byte
		var expires, dues []*int64
		for _, it := range some {
			expire, shard, due := times(it)
			pks, sks, longs = append(pks, partition(it.PK)), append(sks, []byte(it.SK)), append(longs, long(it.PK))
			fences, datas = append(fences, []byte(it.Fence)), append(datas, content(it))
			expires, shards, dues = append(expires, expire), append(shards, shard), append(dues, due)
		}
		err := t.batch(ctx, func(b *pgx.Batch) {
			b.Queue(t.sql(putItems), pks, sks, longs, fences, datas, expires, shards, dues)
		})
		if err != nil {
			return fmt.Errorf("write to the table: %w", err)
		}
	}
	return nil
}

func (t *tbl) DeleteAll(ctx context.Context, keys []table.Key) error {
	if err := table.CheckAll(keys); err != nil {
		return fmt.Errorf("delete from the table: %w", err)
	}
	if len(keys) <= few {
		var parts []part
		for _, k := range keys {
			parts = append(parts, part{lockOfItem(k), func(b *pgx.Batch) { b.Queue(t.sql(deleteItem), partition(k.PK), []byte(k.SK)) }})
		}
		if err := t.writes.submitAll(ctx, parts); err != nil {
			return fmt.Errorf("delete from the table: %w", err)
		}
		return nil
	}
	for some := range slices.Chunk(keys, step) {
		pks, sks := columnsOfKeys(some)
		err := t.batch(ctx, func(b *pgx.Batch) { b.Queue(t.sql(deleteItems), pks, sks) })
		if err != nil {
			return fmt.Errorf("delete from the table: %w", err)
		}
	}
	return nil
}
