package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
)

// orphanLife is how long an item is kept at least, even if its activity has no record: as long as a
// queue can hold a message.
const orphanLife = 14 * 24 * time.Hour

// outlast returns when an item about recipients that is written now may expire: when the record
// ends (forget), or later. If a late copy of a message comes, only this item shows that the
// delivery was made.
func (s *Store) outlast(forget time.Time) time.Time {
	if least := s.now().Add(orphanLife); forget.Before(least) {
		return least
	}
	return forget
}

// Claim implements ledger.Store.
//
// A chunk and a single position of it are claimed in different items, so neither
// write sees the other. Each worker therefore writes its own claim first and then
// reads the other's item: the later worker sees the earlier claim. The chunk's
// worker leaves a claimed position alone; the position's worker gives up, and its
// message comes again.
func (s *Store) Claim(ctx context.Context, u message.Unit, k ledger.Known, owner string, until time.Time) (ledger.Claim, error) {
	b, ok := k.Basis.(*basis)
	if !ok {
		return ledger.Claim{}, fmt.Errorf("claim of activity %s, chunk %d: not inspected", u.Activity, u.Chunk)
	}
	c := ledger.Claim{Unit: u, Owner: owner, Until: until, Known: k}
	if r, ok := k.Recipients[u.Position]; ok && stale(r, u) {
		return c, ledger.ErrStale
	}
	if k.Claimed.After(s.now()) && !b.holds(owner, s.now()) {
		return c, ledger.ErrClaimed
	}
	var err error
	if u.Position == message.Whole {
		err = s.claimChunk(ctx, &c, *b)
	} else {
		err = s.claimOne(ctx, &c, *b)
	}
	return c, err
}

func (s *Store) claimChunk(ctx context.Context, c *ledger.Claim, b basis) error {
	u := c.Unit
	b.state.Owner, b.state.Until, b.state.Journal = c.Owner, millis(c.Until), c.Known.Journal
	if err := s.writeClaim(ctx, stateKey(u.Activity, u.Chunk), c, &b, b.state.chunkState); err != nil {
		return err
	}
	own, err := s.query(ctx, table.Range{PK: activityPK(u.Activity), From: chunkSK(u.Chunk, "R"), To: chunkSK(u.Chunk, "S")})
	if err != nil {
		return fmt.Errorf("claim chunk %d of activity %s: %w", u.Chunk, u.Activity, err)
	}
	c.Known.Recipients, err = s.merge(ctx, nil, b.state.chunkState, own, u.Activity, u.Chunk, c.Known.Record)
	return err
}

func (s *Store) claimOne(ctx context.Context, c *ledger.Claim, b basis) error {
	u := c.Unit
	before := b
	b.state.Owner, b.state.Until, b.state.Journal, b.state.Generation = c.Owner, millis(c.Until), c.Known.Journal, u.Generation
	if r := c.Known.Recipients[u.Position]; len(b.state.Rows) > 0 || b.chunk != nil {
		if r.RevivedBy(u.Generation) {
			r.State, r.Attempts, r.Unsent, r.NextAttemptAt = activity.Retrying, 0, 0, s.now()
		}
		r.Generation = u.Generation
		b.state.put([]ledger.Recipient{r})
		c.Known.Recipients[u.Position] = r
	}
	key := ownKey(u.Activity, u.Chunk, u.Position)
	if err := s.writeClaim(ctx, key, c, &b, b.state); err != nil {
		return err
	}
	if b.chunk != nil || len(before.state.Rows) > 0 {
		return nil // the chunk's workers know of the position and leave it alone
	}
	err := s.checkChunk(ctx, u)
	if err == nil {
		return nil
	}
	return errors.Join(err, s.withdraw(ctx, key, c.Known.Record, before, b))
}

// stale reports whether a unit's message is too late for what is recorded.
func stale(r ledger.Recipient, u message.Unit) bool {
	return r.State.Final() && !r.RevivedBy(u.Generation) || u.Generation < r.Generation
}

// writeClaim writes v, which has the claim in it, and sets b's condition for the next
// write.
func (s *Store) writeClaim(ctx context.Context, key table.Key, c *ledger.Claim, b *basis, v any) error {
	it, err := outcomePacking.item(key, v, s.outlast(c.Known.Record.Forget))
	if err != nil {
		return err
	}
	it.Unsynced = true // a power cut ends the claim's worker, too
	err = s.swap(ctx, &it, b.cond)
	if there, conflict := found(err); conflict {
		// The owner itself may have made this write and lost the answer.
		if there == nil {
			return ledger.ErrClaimed
		}
		var other ownState
		if err := outcomePacking.unpack(*there, &other); err != nil {
			return err
		}
		b.state, it = other, *there
		if !b.holds(c.Owner, s.now()) {
			return ledger.ErrClaimed
		}
	} else if err != nil {
		return fmt.Errorf("claim %s %s: %w", key.PK, key.SK, err)
	}
	b.cond = table.Fenced(it.Fence)
	c.Known.Basis = b
	return nil
}

// checkChunk returns ledger.ErrClaimed if a worker of the whole chunk may be sending
// to the position.
func (s *Store) checkChunk(ctx context.Context, u message.Unit) error {
	key := stateKey(u.Activity, u.Chunk)
	items, err := s.t.Get(ctx, key)
	if err != nil {
		return fmt.Errorf("claim position %d of chunk %d of activity %s: %w", u.Position, u.Chunk, u.Activity, err)
	}
	chunk, _, err := s.chunkState(items, u)
	if err != nil {
		return err
	}
	r, recorded := chunk.recipient(u.Position)
	switch {
	case recorded && stale(r, u):
		return ledger.ErrStale
	case recorded, !chunk.claimed(s.now()).IsZero():
		// The worker is sending, or has just recorded the outcome: look again.
		return ledger.ErrClaimed
	}
	return nil
}

// withdraw undoes a claim of a single position, unless it has lapsed and was taken over.
func (s *Store) withdraw(ctx context.Context, key table.Key, r ledger.Record, before, now basis) error {
	if before.cond.Absent {
		return onConflict(s.t.Delete(ctx, key, now.cond), nil)
	}
	before.state.Until = 0
	it, err := outcomePacking.item(key, before.state, s.outlast(r.Forget))
	if err != nil {
		return err
	}
	return onConflict(s.swap(ctx, &it, now.cond), nil)
}
