package parking

import (
	"context"
	"fmt"
	"slices"
	"time"

	"fedpost/internal/servers/circuit"
)

// Next returns up to n deliveries of a lot to release, from a position on; the next position;
// and whether the lot ends there. Of an ordered group it returns the first, because each
// releases the next.
func (l *Lot) Next(ctx context.Context, key string, at circuit.Sweep, n int) (ps []Parked, next circuit.Sweep, end bool, err error) {
	for len(ps) < n {
		if at.Shard >= Shards {
			return ps, circuit.Sweep{Left: at.Left}, true, nil
		}
		page, cursor, err := l.Store.Heads(ctx, key, at.Shard, at.After, n-len(ps))
		if err != nil {
			return ps, at, false, fmt.Errorf("look into the lot of %s: %w", key, err)
		}
		for _, p := range page {
			at.Left = at.Left || p.Group != ""
		}
		ps = append(ps, page...)
		at.After = cursor
		if cursor == "" {
			at.Shard++
		}
	}
	return ps, at, at.Shard >= Shards, nil
}

// Empty reports whether nothing is parked under key.
func (l *Lot) Empty(ctx context.Context, key string) (bool, error) {
	ps, _, _, err := l.Next(ctx, key, circuit.Sweep{}, 1)
	return len(ps) == 0, err
}

// AnyLoose reports whether an unordered delivery is parked under key.
func (l *Lot) AnyLoose(ctx context.Context, key string) (bool, error) {
	for shard := range Shards {
		for cursor, most := "", overdueFirst; ; most = overduePage {
			page, next, err := l.Store.Heads(ctx, key, shard, cursor, most)
			if err != nil {
				return false, fmt.Errorf("look into the lot of %s: %w", key, err)
			}
			if slices.ContainsFunc(page, func(p Parked) bool { return p.Group == "" }) {
				return true, nil
			}
			if cursor = next; next == "" {
				break
			}
		}
	}
	return false, nil
}

// All calls do with all deliveries parked under key, up to n at once, until do fails.
func (l *Lot) All(ctx context.Context, key string, n int, do func([]Parked) error) error {
	for shard := range Shards {
		for cursor := ""; ; {
			page, next, err := l.Store.ParkedUnder(ctx, key, shard, cursor, n)
			if err != nil {
				return fmt.Errorf("look into the lot of %s: %w", key, err)
			}
			if len(page) > 0 {
				if err := do(page); err != nil {
					return err
				}
			}
			if cursor = next; next == "" {
				break
			}
		}
	}
	return nil
}

// overduePage is how many deliveries Overdue reads at once. It reads overdueFirst of a shard
// first: usually none is overdue.
const overdueFirst, overduePage = 4, 100

// IsOverdue reports whether p is too old, expired or damaged, and so must not wait longer.
func (p Parked) IsOverdue(now time.Time) bool {
	return p.Damaged != nil || !p.GiveUp.After(now) || p.Activity.Expired(now)
}

// Overdue calls do with all overdue deliveries under key, up to n at once, until do fails. It
// passes on what it has found every few seconds: a run that is cut off has ended some of them, and
// the next one ends the others. An ordered one stays if an earlier one of its group may wait.
// Unordered ones are stored by age, so a shard's search ends with the first page of young ones; one
// on a later page that expires early is found by its release.
func (l *Lot) Overdue(ctx context.Context, key string, now time.Time, n int, do func([]Parked) error) error {
	b := batch{most: max(1, n), do: do, now: l.Now}
	for shard := range Shards {
		for cursor, most := "", overdueFirst; ; most = overduePage {
			page, next, err := l.Store.Heads(ctx, key, shard, cursor, most)
			if err != nil {
				return fmt.Errorf("look for what is overdue under %s: %w", key, err)
			}
			hit := false
			for _, p := range page {
				if !p.IsOverdue(now) {
					continue
				}
				hit = true
				if p.Group == "" {
					err = b.add(p)
				} else {
					err = l.overdueOf(ctx, key, p.Group, now, &b)
				}
				if err != nil {
					return err
				}
			}
			if cursor = next; next == "" || (!hit && l.tooYoung(page, now)) {
				break
			}
		}
	}
	return b.flush()
}

// tooYoung reports whether all deliveries after the last of page are too young to be overdue.
func (l *Lot) tooYoung(page []Parked, now time.Time) bool {
	if len(page) == 0 || page[0].Group != "" {
		return false
	}
	return page[len(page)-1].Activity.CreatedAt.Add(l.Rules.GiveUp).After(now)
}

// overdueOf adds the overdue deliveries at the front of a group.
func (l *Lot) overdueOf(ctx context.Context, key, group string, now time.Time, b *batch) error {
	for cursor := ""; ; {
		page, next, err := l.Store.ParkedOf(ctx, key, group, cursor, overduePage)
		if err != nil {
			return fmt.Errorf("look for what is overdue under %s: %w", key, err)
		}
		for _, p := range page {
			if !p.IsOverdue(now) {
				return nil
			}
			if err := b.add(p); err != nil {
				return err
			}
		}
		if cursor = next; next == "" {
			return nil
		}
	}
}

// collectFor is how long Overdue collects deliveries before it passes them on. A group costs it a
// read, so reading a lot of many groups may take longer than a run.
const collectFor = 5 * time.Second

type batch struct {
	most  int
	do    func([]Parked) error
	now   func() time.Time
	ps    []Parked
	since time.Time // of the first of ps
}

func (b *batch) add(p Parked) error {
	if len(b.ps) == 0 {
		b.since = b.now()
	}
	if b.ps = append(b.ps, p); len(b.ps) < b.most && b.now().Sub(b.since) < collectFor {
		return nil
	}
	return b.flush()
}

func (b *batch) flush() error {
	ps := b.ps
	if b.ps = nil; len(ps) == 0 {
		return nil
	}
	return b.do(ps)
}
