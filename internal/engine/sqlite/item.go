package sqlite

import (
	"context"
	"database/sql/driver"

	"fedpost/internal/engine/table"
)

// apply does one op if its condition holds.
func apply(s *session, op table.Op) error {
	if op.Put != nil {
		if done, err := likely(s, *op.Put, op.Cond); done || err != nil {
			return err
		}
	}
	k := op.Key()
	if !op.Cond.Always() {
		found, err := load(s, k)
		if err != nil {
			return err
		}
		if !op.Cond.Holds(found) {
			return &table.ConflictError{Key: k, Found: found}
		}
	}
	switch {
	case op.Put != nil:
		return put(s, *op.Put)
	case op.Delete != nil:
		return remove(s, k)
	}
	return nil
}

// likely puts an item by one statement in the two cases that nearly all conditional puts are:
// there is none and need not be, or there is one with the right fence and the same times. In
// the latter the item stays where it is in the indexes of its times. In all other cases it
// changes nothing.
func likely(s *session, it table.Item, cond table.Cond) (done bool, err error) {
	expires, shard, due := times(it)
	var res driver.Result
	switch {
	case cond.Absent:
		res, err = s.change(insertItem+`ON CONFLICT (pk, sk) DO NOTHING`, it.PK, it.SK, it.Fence, content(it), expires, shard, due)
	case cond.Fence != "":
		res, err = s.change(`UPDATE item SET fence = ?, data = ?
			WHERE pk = ? AND sk = ? AND fence = ? AND expires IS ? AND due_shard IS ? AND due_at IS ?`,
			it.Fence, content(it), it.PK, it.SK, cond.Fence, expires, shard, due)
	default:
		return false, nil
	}
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

const insertItem = `INSERT INTO item (pk, sk, fence, data, expires, due_shard, due_at) VALUES (?, ?, ?, ?, ?, ?, ?) `

func put(s *session, it table.Item) error {
	expires, shard, due := times(it)
	return s.exec(insertItem+`ON CONFLICT (pk, sk) DO UPDATE SET fence = excluded.fence, data = excluded.data,
			expires = excluded.expires, due_shard = excluded.due_shard, due_at = excluded.due_at`,
		it.PK, it.SK, it.Fence, content(it), expires, shard, due)
}

// times returns an item's times as they are stored.
func times(it table.Item) (expires, shard, due any) {
	if !it.Expires.IsZero() {
		expires = table.Nanos(it.Expires)
	}
	if it.Due.Shard != "" {
		shard, due = it.Due.Shard, table.Nanos(it.Due.At)
	}
	return expires, shard, due
}

// content is an item's data as it is stored: NULL would be no data at all.
func content(it table.Item) []byte {
	if it.Data == nil {
		return []byte{}
	}
	return it.Data
}

func remove(s *session, k table.Key) error {
	return s.exec(`DELETE FROM item WHERE pk = ? AND sk = ?`, k.PK, k.SK)
}

// load returns the item of a key, nil if there is none.
func load(s *session, k table.Key) (*table.Item, error) {
	var found *table.Item
	err := s.each(selectItem+`WHERE pk = ? AND sk = ?`, []any{k.PK, k.SK}, func(scan func(...any) error) error {
		it, err := scanItem(scan)
		found = &it
		return err
	})
	return found, err
}

// list returns the items of a query that starts with selectItem, which read runs.
func (t *tbl) list(ctx context.Context, read func(context.Context, func(*session) error) error, query string, args ...any) ([]table.Item, error) {
	var items []table.Item
	err := read(ctx, func(s *session) error {
		items = nil
		return s.each(query, args, func(scan func(...any) error) error {
			it, err := scanItem(scan)
			items = append(items, it)
			return err
		})
	})
	return items, err
}

func scanItem(scan func(...any) error) (table.Item, error) {
	var it table.Item
	var expires, due *int64
	var shard string
	err := scan(&it.PK, &it.SK, &it.Fence, &it.Data, &expires, &shard, &due)
	it.SetTimes(expires, due, shard)
	return it, err
}
