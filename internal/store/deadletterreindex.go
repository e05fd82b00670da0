package store

import (
	"context"
	"fmt"
	"slices"

	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/engine/table"
)

// indexedMark says that all dead letters are in the indexes of their hosts.
var indexedMark = table.Key{PK: "DH#", SK: "INDEXED"}

// IndexDeadLetters writes the items of hosts' indexes for dead letters of versions that had
// no such index, once for a table: later calls read one item. A process that dies meanwhile
// begins anew. It returns how many dead letters it has read.
func (s *Store) IndexDeadLetters(ctx context.Context) (n int, err error) {
	found, err := s.t.Get(ctx, indexedMark)
	if err != nil {
		return 0, fmt.Errorf("look for the index of dead letters: %w", err)
	}
	if _, ok := found[indexedMark]; ok {
		return 0, nil
	}
	for cursor := ""; ; {
		ls, next, err := s.DeadLetters(ctx, deadletter.Filter{}, cursor, deadLetterReads)
		if err != nil {
			return n, err
		}
		n += len(ls)
		// What is damaged does not say its host.
		ls = slices.DeleteFunc(ls, func(l deadletter.DeadLetter) bool { return l.Host() == "" })
		if err := s.indexDeadLetters(ctx, ls); err != nil {
			return n, fmt.Errorf("index dead letters: %w", err)
		}
		if cursor = next; next == "" {
			break
		}
	}
	if err := s.t.PutAll(ctx, []table.Item{{Key: indexedMark, Data: []byte{1}}}); err != nil {
		return n, fmt.Errorf("note that dead letters are indexed: %w", err)
	}
	return n, nil
}
