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

// Items of one activity that are written together share one copy of a large body.
// The copy is stored beside the activity's record.

// bodyPrefix starts the sort keys of an activity's body.
const bodyPrefix = "BODY#"

// bodyPart is how large a part of a body is, in bytes: well within an item.
const bodyPart = 256 << 10

func bodyKey(id activity.ID, n int) table.Key {
	return table.Key{PK: activityPK(id), SK: fmt.Sprintf("%s%04d", bodyPrefix, n)}
}

// carrier is an item that carries an activity.
type carrier struct {
	activity activity.Activity
	// until is the time until which the body is needed.
	until time.Time
	// pack returns the item for activity a. bodyParts is the number of parts in
	// which the body is stored apart; 0 if a carries the body.
	pack func(a activity.Activity, bodyParts int) (table.Item, error)
}

// bodySlack is how long a body that is stored apart is kept after the last delivery or dead letter
// that needs it has ended. The mark that an activity is cancelled outlasts its record by as much,
// for the same deliveries.
const bodySlack = 400 * 24 * time.Hour

// writeUnit is the unit that a table bills writes in, in bytes.
const writeUnit = 1024

// putCarriers writes items that carry activities. A body is kept apart if that
// costs fewer write units, or if it would not fit in an item.
func (s *Store) putCarriers(ctx context.Context, all []carrier) error {
	all, err := s.putLight(ctx, all)
	if err != nil || len(all) == 0 {
		return err
	}
	byActivity := make(map[activity.ID][]carrier)
	for _, c := range all {
		byActivity[c.activity.ID] = append(byActivity[c.activity.ID], c)
	}
	parts, items := make(map[table.Key]table.Item), make(map[table.Key]table.Item, len(all))
	for id, group := range byActivity {
		first, err := group[0].pack(group[0].activity, 0)
		if err != nil {
			return err
		}
		units := (first.Size() + writeUnit - 1) / writeUnit
		var body []table.Item
		if len(first.Data) > bodyPart || len(group)*units > len(group)+units {
			if body, err = packBody(id, group[0].activity.Body); err != nil {
				return err
			}
		}
		for _, c := range group {
			if len(body) > 0 {
				c.activity.Body = ""
			}
			it, err := c.pack(c.activity, len(body))
			if err != nil {
				return err
			}
			items[it.Key] = it
			for _, p := range body {
				// The body must outlive every item that refers to the body.
				if p.Expires = c.until.Add(bodySlack); p.Expires.Before(parts[p.Key].Expires) {
					p.Expires = parts[p.Key].Expires
				}
				parts[p.Key] = p
			}
		}
	}
	// Bodies are written first, so no item ever refers to a missing body.
	if err := s.t.PutAll(ctx, slices.Collect(maps.Values(parts))); err != nil {
		return fmt.Errorf("write the body of an activity: %w", err)
	}
	return s.t.PutAll(ctx, slices.Collect(maps.Values(items)))
}

// errNoBody says that the body of an item's activity is stored apart, and cannot be read.
func errNoBody(id activity.ID) error {
	return fmt.Errorf("activity %s: %w", id, ledger.ErrNoBody)
}

func packBody(id activity.ID, body string) ([]table.Item, error) {
	data, err := parkedPacking.pack(body)
	if err != nil {
		return nil, err
	}
	var parts []table.Item
	for part := range slices.Chunk(data, bodyPart) {
		parts = append(parts, table.Item{Key: bodyKey(id, len(parts)), Data: part})
	}
	return parts, nil
}

// bodies returns the bodies that are stored apart. parts has the number of parts
// for each activity. A body of which a part is missing or damaged is left out.
func (s *Store) bodies(ctx context.Context, parts map[activity.ID]int) (map[activity.ID]string, error) {
	var keys []table.Key
	for id, n := range parts {
		for i := range n {
			keys = append(keys, bodyKey(id, i))
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	items, err := s.t.Get(ctx, keys...)
	if err != nil {
		return nil, fmt.Errorf("read the bodies of activities: %w", err)
	}
	bodies := make(map[activity.ID]string, len(parts))
	for id, n := range parts {
		whole, complete := table.Item{Key: bodyKey(id, 0)}, true
		for i := range n {
			it, ok := items[bodyKey(id, i)]
			complete = complete && ok
			whole.Data = append(whole.Data, it.Data...)
		}
		if !complete {
			continue
		}
		var body string
		if parkedPacking.unpack(whole, &body) == nil {
			bodies[id] = body
		}
	}
	return bodies, nil
}

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
	return s.body(ctx, a.ID, a.Apart.Parts)
}

// body returns a body that is stored apart. The error of one that cannot be read is errNoBody.
func (s *Store) body(ctx context.Context, id activity.ID, parts int) (string, error) {
	bodies, err := s.bodies(ctx, map[activity.ID]int{id: parts})
	body, ok := bodies[id]
	if err == nil && !ok {
		err = errNoBody(id)
	}
	return body, err
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
