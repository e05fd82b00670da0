package store

import (
	"context"
	"fmt"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
)

func (s *Store) PlanChunks(ctx context.Context, id activity.ID, first int, chunks [][]activity.Target, forget time.Time) error {
	items := make([]table.Item, len(chunks))
	for i, targets := range chunks {
		data, err := activityPacking.pack(targets)
		if err != nil {
			return err
		}
		items[i] = table.Item{Key: planKey(id, first+i), Data: data, Expires: forget}
	}
	return wrapped(s.t.PutAll(ctx, items), "record the targets of activity %s", id)
}

func (s *Store) Chunks(ctx context.Context, r ledger.Record, first, last int) ([]ledger.Chunk, error) {
	if last < first {
		return nil, nil
	}
	list, _, err := s.t.Query(ctx, table.Range{PK: activityPK(r.ID), From: chunkSK(first, ""), To: chunkSK(last+1, "")})
	if err != nil {
		return nil, fmt.Errorf("read chunks of activity %s: %w", r.ID, err)
	}
	byChunk := make(map[int]map[table.Key]table.Item)
	for _, it := range list {
		n, _, _, err := chunkPart(it.SK)
		if err != nil {
			return nil, err
		}
		if s.expired(it) {
			continue
		}
		if byChunk[n] == nil {
			byChunk[n] = make(map[table.Key]table.Item)
		}
		byChunk[n][it.Key] = it
	}
	chunks, read := make([]ledger.Chunk, 0, last-first+1), journals{}
	for n := first; n <= last; n++ {
		c, err := s.chunk(ctx, read, r, n, byChunk[n])
		if err != nil {
			return nil, err
		}
		chunks = append(chunks, c)
	}
	return chunks, nil
}

func (s *Store) chunk(ctx context.Context, read journals, r ledger.Record, n int, items map[table.Key]table.Item) (ledger.Chunk, error) {
	c := ledger.Chunk{Number: n}
	if it, ok := items[planKey(r.ID, n)]; ok {
		if err := activityPacking.unpack(it, &c.Targets); err != nil {
			return c, err
		}
	} else if from := n * r.Chunk; from < len(r.Inline) {
		c.Targets = r.Inline[from:min(from+r.Chunk, len(r.Inline))]
	}
	state, _, err := s.chunkState(items, message.Unit{Activity: r.ID, Chunk: n})
	if err != nil {
		return c, err
	}
	if err := s.fold(ctx, read, message.Unit{Activity: r.ID, Chunk: n, Position: message.Whole}, &state); err != nil {
		return c, err
	}
	for i, name := range state.Texts {
		it, ok := items[textKey(r.ID, n, name)]
		if !ok {
			continue
		}
		var texts textItem
		if err := outcomePacking.unpack(it, &texts); err != nil {
			return c, err
		}
		state.restore(i, texts)
	}
	if c.Recipients, err = s.merge(ctx, read, state, items, r.ID, n, r); err != nil {
		return c, err
	}
	c.Claimed = state.claimed(s.now())
	c.Touched = len(c.Recipients) > 0 || state.Owner != ""
	for p, rec := range c.Recipients {
		if p < len(c.Targets) {
			rec.Target = c.Targets[p]
			c.Recipients[p] = rec
		}
	}
	return c, nil
}
