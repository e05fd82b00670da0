package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"fedpost/internal/activity"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
)

func (s *Store) Record(ctx context.Context, c *ledger.Claim, rs []ledger.Recipient, done bool) error {
	u := c.Unit
	b, ok := c.Known.Basis.(*basis)
	if !ok {
		return fmt.Errorf("record of activity %s, chunk %d: not claimed", u.Activity, u.Chunk)
	}
	if b.state.Until == 0 {
		return ledger.ErrClaimed // an earlier call with done has ended the claim
	}
	for _, r := range rs {
		if u.Position != message.Whole && r.Position != u.Position {
			return fmt.Errorf("record of activity %s, chunk %d: position %d, but %d is claimed", u.Activity, u.Chunk, r.Position, u.Position)
		}
	}
	for range conflictTries {
		next := *b
		next.state.Owner, next.state.Until = c.Owner, millis(c.Until)
		if done {
			next.state.Until, next.state.Journal = 0, ""
		}
		next.state.Rows = slices.Clone(b.state.Rows)
		next.state.put(rs)
		it, err := s.write(ctx, c, &next)
		there, conflict := found(err)
		switch {
		case err == nil:
			next.cond = table.Fenced(it.Fence)
			c.Known.Basis = &next
			return nil
		case !conflict:
			return fmt.Errorf("record outcomes of activity %s, chunk %d: %w", u.Activity, u.Chunk, err)
		case there == nil:
			return ledger.ErrClaimed
		}
		// The owner itself may have made this write and lost the answer.
		mine := basis{cond: table.Fenced(there.Fence), chunk: b.chunk}
		if err := outcomePacking.unpack(*there, &mine.state); err != nil {
			return err
		}
		if mine.state.Owner != c.Owner || mine.state.Until == 0 && !done {
			return ledger.ErrClaimed
		}
		b = &mine
	}
	return errContended(stateKey(u.Activity, u.Chunk))
}

// write writes the state of a claimed unit. Texts that do not fit into the state are
// written first, as an item of their own: if the second write fails, the item is
// unused and harmless.
func (s *Store) write(ctx context.Context, c *ledger.Claim, b *basis) (table.Item, error) {
	u, expires := c.Unit, s.outlast(c.Known.Record.Forget)
	if u.Position != message.Whole {
		data, err := b.state.packOwn()
		if err != nil {
			return table.Item{}, err
		}
		it := table.Item{Key: ownKey(u.Activity, u.Chunk, u.Position), Data: data, Expires: expires}
		err = s.swap(ctx, &it, b.cond)
		return it, err
	}
	data, texts, err := b.state.chunkState.pack(func(name string) table.Key { return textKey(u.Activity, u.Chunk, name) })
	if err != nil {
		return table.Item{}, err
	}
	if texts != nil {
		texts.Expires = expires
		if err := s.t.Put(ctx, *texts, table.Cond{}); err != nil {
			return table.Item{}, err
		}
	}
	it := table.Item{Key: stateKey(u.Activity, u.Chunk), Data: data, Expires: expires}
	err = s.swap(ctx, &it, b.cond)
	return it, err
}

func unpackOwn(it table.Item) (position int, own ownState, err error) {
	_, _, rest, err := chunkPart(it.SK)
	if err != nil {
		return 0, own, err
	}
	if position, err = strconv.Atoi(rest); err != nil {
		return 0, own, fmt.Errorf("%q is not a key of a recipient: %w", it.SK, err)
	}
	err = outcomePacking.unpack(it, &own)
	return position, own, err
}

// atOnce is how many conditional writes a verb makes at the same time.
const atOnce = 16

func (s *Store) PutRecipients(ctx context.Context, id activity.ID, rs []ledger.Recipient, forget time.Time) ([]ledger.Recipient, error) {
	forget = s.outlast(forget)
	keys := make(map[table.Key]bool, 2*len(rs))
	for _, r := range rs {
		keys[stateKey(id, r.Chunk)] = true
		keys[ownKey(id, r.Chunk, r.Position)] = true
	}
	items, err := s.t.Get(ctx, slices.Collect(maps.Keys(keys))...)
	if err != nil {
		return nil, fmt.Errorf("record recipients of activity %s: %w", id, err)
	}
	stand := make([]bool, len(rs))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i, r := range rs {
		g.Go(func() (err error) {
			stand[i], err = s.putRecipient(gctx, id, r, items, forget)
			return err
		})
	}
	err = g.Wait()
	var put []ledger.Recipient
	for i, r := range rs {
		if stand[i] {
			put = append(put, r)
		}
	}
	return put, wrapped(err, "record recipients of activity %s", id)
}

// keysOf returns the keys of things, each once.
func keysOf[T any](all []T, key func(T) table.Key) []table.Key {
	set := make(map[table.Key]bool, len(all))
	for _, one := range all {
		set[key(one)] = true
	}
	return slices.Collect(maps.Keys(set))
}

// putRecipient records r, and reports whether the table then has r as given. items
// has what was read before.
func (s *Store) putRecipient(ctx context.Context, id activity.ID, r ledger.Recipient, items map[table.Key]table.Item, forget time.Time) (bool, error) {
	u := r.Unit(id)
	key := ownKey(id, r.Chunk, r.Position)
	for range conflictTries {
		chunk, _, err := s.chunkState(items, u)
		if err != nil {
			return false, err
		}
		var k ledger.Known
		if err := s.inspectOne(ctx, &k, u, items, chunk); err != nil {
			return false, err
		}
		if old, ok := k.Recipients[r.Position]; ok && stale(old, u) {
			return old.State == r.State && old.Generation == r.Generation, nil
		}
		if !k.Claimed.IsZero() {
			return false, nil
		}
		b := k.Basis.(*basis)
		b.state.put([]ledger.Recipient{r})
		b.state.Owner, b.state.Until, b.state.Generation = "", 0, r.Generation
		data, err := b.state.packOwn()
		if err != nil {
			return false, err
		}
		err = s.swap(ctx, &table.Item{Key: key, Data: data, Expires: forget}, b.cond)
		if _, conflict := found(err); !conflict {
			return err == nil, err
		}
		if items, err = s.t.Get(ctx, key, stateKey(id, r.Chunk)); err != nil {
			return false, err
		}
	}
	return false, errContended(key)
}
