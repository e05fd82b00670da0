package postgres

import (
	"crypto/sha256"

	"github.com/jackc/pgx/v5"

	"fedpost/internal/engine/table"
)

// longest is how many bytes of a partition key are stored as they are. An entry of an index
// has at most 2,704 bytes, and a sort key up to 1,024 of them.
// https://www.postgresql.org/docs/current/btree.html
const longest = 1024

// partition is a partition key as it is stored. Partitions are only compared for equality, so
// the rest of a long key may be a digest.
func partition(pk string) []byte {
	if len(pk) <= longest {
		return []byte(pk)
	}
	sum := sha256.Sum256([]byte(pk))
	return append([]byte(pk[:longest]), sum[:]...)
}

// long is the whole of a partition key that is not stored as it is.
func long(pk string) []byte {
	if len(pk) <= longest {
		return nil
	}
	return []byte(pk)
}

func columnsOfKeys(keys []table.Key) (pks, sks [][]byte) {
	for _, k := range keys {
		pks, sks = append(pks, partition(k.PK)), append(sks, []byte(k.SK))
	}
	return pks, sks
}

// values are an item's columns in the order of insertItem.
func values(it table.Item) []any {
	expires, shard, due := times(it)
	return []any{partition(it.PK), []byte(it.SK), long(it.PK), []byte(it.Fence), content(it), expires, shard, due}
}

// times returns an item's times as they are stored.
func times(it table.Item) (expires *int64, shard []byte, due *int64) {
	if !it.Expires.IsZero() {
		n := table.Nanos(it.Expires)
		expires = &n
	}
	if it.Due.Shard != "" {
		n := table.Nanos(it.Due.At)
		shard, due = []byte(it.Due.Shard), &n
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

func scanItem(row pgx.CollectableRow) (it table.Item, err error) {
	var pk, long, sk, fence, shard []byte
	var expires, due *int64
	if err := row.Scan(&pk, &long, &sk, &fence, &it.Data, &expires, &shard, &due); err != nil {
		return it, err
	}
	if long != nil {
		pk = long
	}
	it.PK, it.SK, it.Fence = string(pk), string(sk), string(fence)
	it.SetTimes(expires, due, string(shard))
	return it, nil
}
