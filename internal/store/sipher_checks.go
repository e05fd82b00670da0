package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fedpost/internal/engine/table"
	"fedpost/internal/protocol/sipher/peers"
)

// One shard is enough: there are no more checks than unhealthy servers.
const sipherCheckShard = "sipher-check"

// checkKept is how long an overdue check is kept, in case the scheduled function was
// switched off.
const checkKept = 30 * 24 * time.Hour

func sipherCheckKey(c peers.Check) table.Key { return table.Key{PK: "SIPHER#" + c.ID(), SK: "CHECK"} }

func sipherCheckItem(c peers.Check) (table.Item, error) {
	it, err := jsonItem(sipherCheckKey(c), c, c.DueAt.Add(checkKept))
	it.Due = table.Due{Shard: sipherCheckShard, At: c.DueAt}
	return it, err
}

func (x Sipher) ScheduleCheck(ctx context.Context, c peers.Check) (bool, error) {
	it, err := sipherCheckItem(c)
	if err != nil {
		return false, err
	}
	err = x.s.swap(ctx, &it, table.Free(x.s.now()))
	return err == nil, onConflict(err, nil)
}

func (x Sipher) HastenCheck(ctx context.Context, c peers.Check) error {
	return x.update(ctx, sipherCheckKey(c), func(old *table.Item) (*table.Item, error) {
		if old != nil && !old.Due.At.After(c.DueAt) {
			return nil, nil
		}
		it, err := sipherCheckItem(c)
		return &it, err
	})
}

func (x Sipher) DueChecks(ctx context.Context, now time.Time, limit int) ([]peers.Check, error) {
	items, err := x.s.t.Due(ctx, sipherCheckShard, now, limit)
	if err != nil {
		return nil, fmt.Errorf("find due sipher checks: %w", err)
	}
	return unpacked(slices.DeleteFunc(items, x.s.expired), func(it table.Item) (c peers.Check, err error) {
		err = decode(it, &c)
		c.DueAt, c.Version = it.Due.At, it.Fence
		return c, err
	})
}

func (x Sipher) PostponeCheck(ctx context.Context, c peers.Check, at time.Time) (peers.Check, error) {
	c.DueAt = at
	it, err := sipherCheckItem(c)
	if err != nil {
		return c, err
	}
	err = x.s.swap(ctx, &it, table.Fenced(c.Version))
	if errors.Is(err, table.ErrConflict) {
		return c, peers.ErrTaken
	}
	c.Version = it.Fence
	return c, err
}

func (x Sipher) FinishCheck(ctx context.Context, c peers.Check) error {
	return onConflict(x.s.t.Delete(ctx, sipherCheckKey(c), table.Fenced(c.Version)), peers.ErrTaken)
}
