package store

import (
	"context"
	"slices"
	"strings"
	"time"

	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/engine/table"
)

// Marks in the table: what versions without the indexes wrote has been indexed.
var (
	indexedMark     = table.Key{PK: "DH#", SK: "INDEXED"}
	indexedKeysMark = table.Key{PK: publicPrefix, SK: "INDEXED"} // keyList holds nothing but keys
)

// IndexDeadLetters writes the items of hosts' indexes for dead letters of versions that had
// no such index. It returns how many dead letters it has read.
func (s *Store) IndexDeadLetters(ctx context.Context) (n int, err error) {
	err = s.onceMarked(ctx, indexedMark, func() error {
		for cursor := ""; ; {
			ls, next, err := s.DeadLetters(ctx, deadletter.Filter{}, cursor, deadLetterReads)
			if err != nil {
				return err
			}
			n += len(ls)
			// The host of a damaged one may be unknown.
			ls = slices.DeleteFunc(ls, func(l deadletter.DeadLetter) bool { return l.Host() == "" })
			if err := s.indexDeadLetters(ctx, ls); err != nil {
				return err
			}
			if cursor = next; next == "" {
				return nil
			}
		}
	})
	return n, wrapped(err, "index dead letters")
}

// IndexKeys lists the keys of versions that had no list of keys. partitions returns the
// partitions whose names begin with a prefix, which not every engine can list; no other process
// may change keys meanwhile. It returns how many keys were not listed.
func (s *Store) IndexKeys(ctx context.Context, partitions func(ctx context.Context, prefix string) ([]string, error)) (n int, err error) {
	err = s.onceMarked(ctx, indexedKeysMark, func() error {
		all, err := partitions(ctx, publicPrefix)
		if err != nil {
			return err
		}
		for some := range slices.Chunk(all, keysRead) {
			if err := s.listKeys(ctx, some, &n); err != nil {
				return err
			}
		}
		return nil
	})
	return n, wrapped(err, "index keys")
}

// keysRead is how many keys IndexKeys reads at a time.
const keysRead = 100

// listKeys lists the keys of partitions that are not listed, and counts them.
func (s *Store) listKeys(ctx context.Context, partitions []string, n *int) error {
	var ks []table.Key
	for _, pk := range partitions {
		if id := strings.TrimPrefix(pk, publicPrefix); id != "" {
			ks = append(ks, publicKey(id), listedKey(id))
		}
	}
	found, err := s.t.Get(ctx, ks...)
	if err != nil {
		return err
	}
	var missing []table.Item
	for i := 0; i < len(ks); i += 2 {
		it, ok := found[ks[i]]
		if _, listed := found[ks[i+1]]; !ok || listed {
			continue
		}
		var k shownKey
		if err := decode(it, &k); err != nil {
			return err
		}
		k.ID, k.Private = strings.TrimPrefix(it.PK, publicPrefix), nil
		listed, err := jsonItem(ks[i+1], k, time.Time{})
		if err != nil {
			return err
		}
		missing = append(missing, listed)
	}
	*n += len(missing)
	return s.t.PutAll(ctx, missing)
}

// onceMarked does work once for a table: later calls read the mark. A process that dies
// meanwhile begins anew.
func (s *Store) onceMarked(ctx context.Context, mark table.Key, work func() error) error {
	found, err := s.t.Get(ctx, mark)
	if _, done := found[mark]; done || err != nil {
		return err
	}
	if err := work(); err != nil {
		return err
	}
	return s.t.PutAll(ctx, []table.Item{{Key: mark, Data: []byte{1}}})
}
