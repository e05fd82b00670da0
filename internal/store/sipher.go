package store

import (
	"context"
	"fmt"
	"time"

	"fedpost/internal/protocol/sipher/follow"
	"fedpost/internal/protocol/sipher/peers"

	"fedpost/internal/engine/table"
)

// Sipher is the storage of the Sipher protocol: registry, block list, follows
// and the schedule of health checks. Its verbs stand apart from those of the Store,
// because the protocol keeps its own registry of servers beside the engine's hosts.
type Sipher struct{ s *Store }

var (
	_ peers.Store     = Sipher{}
	_ peers.BlockList = Sipher{}
	_ follow.Store    = Sipher{}
	_ peers.Schedule  = Sipher{}
)

func (s *Store) Sipher() Sipher { return Sipher{s} }

// sipherTries bounds the read-modify-writes of a record. It is high, because overlapping runs must
// not lose the count of a failed check. A conflict returns the newer item, so a try is cheap.
const sipherTries = 100

// update applies f to the item of a key, again as long as others change the item in
// between. f gets nil if there is no item; it returns the item to write, or nil to
// write none.
func (x Sipher) update(ctx context.Context, k table.Key, f func(*table.Item) (*table.Item, error)) error {
	items, err := x.s.t.Get(ctx, k)
	if err != nil {
		return fmt.Errorf("read %s %s: %w", k.PK, k.SK, err)
	}
	for range sipherTries {
		if err := ctx.Err(); err != nil {
			return err
		}
		old, cond := x.s.live(items, k)
		it, err := f(old)
		if err != nil || it == nil {
			return err
		}
		it.Key = k
		err = x.s.swap(ctx, it, cond)
		stale, conflict := found(err)
		if !conflict {
			return wrapped(err, "write %s %s", k.PK, k.SK)
		}
		items = map[table.Key]table.Item{}
		if stale != nil {
			items[k] = *stale
		}
	}
	return errContended(k)
}

// rewrite is update for the record that an item holds, as JSON; expires says until when an item
// is kept, always if it is nil.
func rewrite[T any](ctx context.Context, x Sipher, k table.Key, expires func(*T) time.Time, f func(old *T) (*T, error)) error {
	return x.update(ctx, k, func(it *table.Item) (*table.Item, error) {
		var old *T
		if it != nil {
			old = new(T)
			if err := decode(*it, old); err != nil {
				return nil, err
			}
		}
		next, err := f(old)
		if err != nil || next == nil {
			return nil, err
		}
		written := new(table.Item)
		if expires != nil {
			written.Expires = expires(next)
		}
		written.Data, err = encode(next)
		return written, err
	})
}

// listed returns the records of a partition that have not expired.
func listed[T any](ctx context.Context, x Sipher, pk string) ([]T, error) {
	items, _, err := x.s.page(ctx, table.Range{PK: pk})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", pk, err)
	}
	return unpacked(items, decoded[T])
}
