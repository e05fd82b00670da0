package store

import (
	"context"
	"fmt"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"

	"fedpost/internal/activity"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
)

var _ ledger.Store = (*Store)(nil)

// basis is what Inspect read of a unit's own item. Later writes use it as their
// condition.
type basis struct {
	cond  table.Cond // of the next write
	state ownState   // of a whole chunk, only its chunkState
	// chunk is what the chunk's worker wrote of a single position.
	chunk *ledger.Recipient
}

// holds reports whether owner is the one who holds the unit.
func (b *basis) holds(owner string, now time.Time) bool {
	return b.state.Owner == owner && !b.state.claimed(now).IsZero()
}

func (s *Store) Inspect(ctx context.Context, u message.Unit) (ledger.Known, error) {
	var k ledger.Known
	items, err := s.read(ctx, u)
	if err != nil {
		return k, fmt.Errorf("inspect activity %s, chunk %d: %w", u.Activity, u.Chunk, err)
	}
	if it, _ := s.live(items, recordKey(u.Activity)); it != nil {
		r, moved, err := unpackRecord(u.Activity, *it)
		if err != nil {
			return k, err
		}
		k.Record, k.Found = r, moved == ""
	}
	chunk, cond, err := s.chunkState(items, u)
	if err != nil {
		return k, err
	}
	if chunk.claimed(s.now()).IsZero() {
		whole := u
		whole.Position = message.Whole
		if err := s.fold(ctx, journals{}, whole, &chunk); err != nil {
			return k, err
		}
	}
	if u.Position == message.Whole {
		k.Basis = &basis{cond: cond, state: ownState{chunkState: chunk}}
		k.Claimed = chunk.claimed(s.now())
		k.Lapsed = chunk.Until != 0 && k.Claimed.IsZero()
		k.Recipients, err = s.merge(ctx, nil, chunk, items, u.Activity, u.Chunk, k.Record)
		return k, err
	}
	err = s.inspectOne(ctx, &k, u, items, chunk)
	return k, err
}

func (s *Store) inspectOne(ctx context.Context, k *ledger.Known, u message.Unit, items map[table.Key]table.Item, chunk chunkState) error {
	key := ownKey(u.Activity, u.Chunk, u.Position)
	it, cond := s.live(items, key)
	b := &basis{cond: cond}
	if it != nil {
		if err := outcomePacking.unpack(*it, &b.state); err != nil {
			return err
		}
		s.revoke(&b.state.chunkState)
		if b.state.claimed(s.now()).IsZero() {
			if err := s.fold(ctx, journals{}, u, &b.state.chunkState); err != nil {
				return err
			}
		}
	}
	if r, ok := chunk.recipient(u.Position); ok {
		b.chunk = &r
	}
	recipients, err := s.merge(ctx, nil, chunk, items, u.Activity, u.Chunk, k.Record)
	if err != nil {
		return err
	}
	k.Recipients = make(map[int]ledger.Recipient, 1)
	if r, ok := recipients[u.Position]; ok {
		k.Recipients[u.Position] = r
	}
	if r, ok := b.state.recipient(u.Position); ok && r.State.Final() && !k.Recipients[u.Position].State.Final() {
		k.Recipients[u.Position] = b.state.merged(u.Position, b.chunk, s.now()) // of the journal, not recorded
	}
	k.Claimed = b.state.claimed(s.now())
	k.Lapsed = b.state.Until != 0 && k.Claimed.IsZero()
	if k.Claimed.IsZero() && b.chunk == nil && len(b.state.Rows) == 0 {
		k.Claimed = chunk.claimed(s.now())
	}
	k.Basis = b
	return nil
}

func (s *Store) read(ctx context.Context, u message.Unit) (map[table.Key]table.Item, error) {
	record, pk := recordKey(u.Activity), activityPK(u.Activity)
	if u.Position != message.Whole {
		return s.t.Get(ctx, record, stateKey(u.Activity, u.Chunk), ownKey(u.Activity, u.Chunk, u.Position))
	}
	if u.Chunk == 0 {
		return s.query(ctx, table.Range{PK: pk, From: skRecord, To: chunkSK(0, "T")})
	}
	var items, meta map[table.Key]table.Item
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		meta, err = s.t.Get(gctx, record)
		return err
	})
	g.Go(func() (err error) {
		items, err = s.query(gctx, table.Range{PK: pk, From: chunkSK(u.Chunk, "R"), To: chunkSK(u.Chunk, "T")})
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	maps.Copy(items, meta)
	return items, nil
}

func (s *Store) query(ctx context.Context, r table.Range) (map[table.Key]table.Item, error) {
	list, _, err := s.t.Query(ctx, r)
	items := make(map[table.Key]table.Item, len(list))
	for _, it := range list {
		items[it.Key] = it
	}
	return items, err
}

// chunkState returns the state of u's chunk and the condition of the write that
// replaces it.
func (s *Store) chunkState(items map[table.Key]table.Item, u message.Unit) (chunkState, table.Cond, error) {
	var c chunkState
	it, cond := s.live(items, stateKey(u.Activity, u.Chunk))
	if it == nil {
		return c, cond, nil
	}
	err := outcomePacking.unpack(*it, &c)
	s.revoke(&c)
	return c, cond, err
}

// merge joins a chunk's state with the items of those positions that have messages of
// their own. Unless read is nil, it adds what journals have of those positions: a
// dead worker's entry may be the only trace of a position's end.
func (s *Store) merge(ctx context.Context, read journals, chunk chunkState, items map[table.Key]table.Item, id activity.ID, number int, record ledger.Record) (map[int]ledger.Recipient, error) {
	rs := chunk.recipients()
	for k, it := range items {
		n, part, _, err := chunkPart(k.SK)
		if err != nil || n != number || part != "R" || s.expired(it) {
			continue
		}
		position, own, err := unpackOwn(it)
		if err != nil {
			return nil, err
		}
		s.revoke(&own.chunkState)
		if read != nil {
			if err := s.fold(ctx, read, message.Unit{Activity: id, Chunk: number, Position: position}, &own.chunkState); err != nil {
				return nil, err
			}
		}
		if r, ok := rs[position]; ok {
			rs[position] = own.merged(position, &r, s.now())
		} else {
			rs[position] = own.merged(position, nil, s.now())
		}
	}
	for p, r := range rs {
		r.Chunk = number
		if i := number*record.Chunk + p; i < len(record.Inline) {
			r.Target = record.Inline[i]
		}
		rs[p] = r
	}
	return rs, nil
}
