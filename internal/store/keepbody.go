package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
)

// keptSlack is how long a body that is stored once is kept beyond the promised time. Half would be
// enough: a delivery that is sent again at that time waits up to 14 days in its queue, and then for
// its host until it is given up.
const keptSlack = 60 * 24 * time.Hour

func (s *Store) KeepBody(ctx context.Context, a activity.Activity, until time.Time) (activity.Apart, error) {
	until = until.UTC().Truncate(time.Second) // the precision of every table
	parts, err := packBody(a.ID, a.Body)
	if err != nil {
		return activity.Apart{}, err
	}
	keys := make([]table.Key, len(parts))
	for i, p := range parts {
		keys[i] = p.Key
	}
	found, err := s.t.Get(ctx, keys...)
	if err != nil {
		return activity.Apart{}, fmt.Errorf("look for the body of activity %s: %w", a.ID, err)
	}
	for _, p := range parts {
		if it, ok := found[p.Key]; ok && !it.Expires.Before(until.Add(keptSlack/2)) && bytes.Equal(it.Data, p.Data) {
			continue
		}
		p.Expires = until.Add(keptSlack)
		// The condition keeps a part that another writer has stored for longer meanwhile.
		err := s.t.Put(ctx, p, table.Cond{Absent: true, ExpiredBy: p.Expires})
		if err != nil && !errors.Is(err, table.ErrConflict) {
			return activity.Apart{}, fmt.Errorf("store the body of activity %s: %w", a.ID, err)
		}
	}
	return activity.Apart{Parts: len(parts), Until: until}, nil
}

func (s *Store) Body(ctx context.Context, a activity.Activity) (string, error) {
	bodies, err := s.bodies(ctx, map[activity.ID]int{a.ID: a.Apart.Parts})
	if err != nil {
		return "", err
	}
	body, ok := bodies[a.ID]
	if !ok {
		return "", errNoBody(a.ID)
	}
	return body, nil
}

// putLight writes items whose activity has a body that is stored once, and sees to it that
// the body is kept for as long as they need it. It returns the other items.
func (s *Store) putLight(ctx context.Context, all []carrier) (others []carrier, err error) {
	if !slices.ContainsFunc(all, func(c carrier) bool { return c.activity.Apart.Parts > 0 }) {
		return all, nil
	}
	kept, err := s.keepFor(ctx, all)
	if err != nil {
		return nil, err
	}
	items := make(map[table.Key]table.Item)
	for _, c := range all {
		a := c.activity
		if a.Apart.Parts == 0 {
			others = append(others, c)
			continue
		}
		if longer, ok := kept[a.ID]; ok {
			a.Apart = longer
		}
		it, err := c.pack(a.Light(), a.Apart.Parts)
		if err != nil {
			return nil, err
		}
		items[it.Key] = it
	}
	return others, s.t.PutAll(ctx, slices.Collect(maps.Values(items)))
}

// keepFor keeps bodies that are stored once for items that need them for longer than was promised,
// such as a dead letter that is parked again. Activities of parked deliveries and dead letters have no
// body, so their bodies are read.
func (s *Store) keepFor(ctx context.Context, all []carrier) (map[activity.ID]activity.Apart, error) {
	latest := make(map[activity.ID]carrier)
	for _, c := range all {
		a := c.activity
		if a.Apart.Parts == 0 || !c.until.After(a.Apart.Until) {
			continue
		}
		l, ok := latest[a.ID]
		if !ok || c.until.After(l.until) {
			l.until = c.until
		}
		if l.activity.Body == "" {
			l.activity = a
		}
		latest[a.ID] = l
	}
	kept := make(map[activity.ID]activity.Apart, len(latest))
	for id, l := range latest {
		var err error
		if l.activity.Body == "" {
			l.activity.Body, err = s.Body(ctx, l.activity)
			if errors.Is(err, ledger.ErrNoBody) {
				continue // its items are given up when they are released
			}
		}
		if err == nil {
			kept[id], err = s.KeepBody(ctx, l.activity, l.until)
		}
		if err != nil {
			return nil, err
		}
	}
	return kept, nil
}
