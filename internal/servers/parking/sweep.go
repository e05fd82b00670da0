package parking

import (
	"context"
	"fmt"
	"time"

	"fedpost/internal/servers/circuit"
)

// Next returns up to n deliveries of a lot that may be released, from a place on,
// the place after them, and whether that is the lot's end. Of an ordered group
// it is only ever the first: each lets the next go.
func (l *Lot) Next(ctx context.Context, key string, at circuit.Sweep, n int) (ps []Parked, next circuit.Sweep, end bool, err error) {
	for len(ps) < n {
		if at.Shard >= Shards {
			return ps, circuit.Sweep{Left: at.Left}, true, nil
		}
		page, cursor, err := l.Spots.Heads(ctx, key, at.Shard, at.After, n-len(ps))
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

// overduePage is how many deliveries are looked at in a row without finding one
// that is overdue, before a shard is left.
const overduePage = 100

// Overdue returns up to n deliveries that are no longer to wait for their
// server: too old, or expired. The unordered ones lie in order of age, so a page
// with none ends the search; what it misses is judged when it is released.
func (l *Lot) Overdue(ctx context.Context, key string, now time.Time, n int) ([]Parked, error) {
	var found []Parked
	for shard := range Shards {
		cursor := ""
		for len(found) < n {
			page, next, err := l.Spots.Heads(ctx, key, shard, cursor, overduePage)
			if err != nil {
				return found, fmt.Errorf("look for what is overdue under %s: %w", key, err)
			}
			hits, loose := 0, 0
			for _, p := range page {
				if p.Group == "" {
					loose++
				}
				if !p.GiveUp.After(now) || p.Activity.Expired(now) {
					found = append(found, p)
					hits++
				}
			}
			if next == "" || (hits == 0 && loose == len(page)) {
				break
			}
			cursor = next
		}
	}
	return found[:min(n, len(found))], nil
}
