package store

import (
	"context"
	"fmt"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/message"
	"fedpost/internal/parking"
	"fedpost/internal/table"
)

var _ parking.Store = (*Store)(nil)

// parkedItem is parking.Parked as it is stored.
type parkedItem struct {
	// Activity lacks its body where Body tells in how many parts that is kept
	// apart.
	Activity  activity.Activity `json:"activity"`
	Delivery  message.Delivery  `json:"delivery"`
	Since     int64             `json:"since"`
	GiveUp    int64             `json:"giveUp"`
	Attempted bool              `json:"attempted,omitempty"`
	Group     string            `json:"group,omitempty"`
	Sequence  string            `json:"sequence,omitempty"`
	Body      int               `json:"bodyParts,omitempty"`
}

// parkedSlack is how long a parked delivery outlives its time to give up, so
// that the table never drops what the scheduled function has yet to bury, even
// if that was stopped for weeks.
const parkedSlack = 30 * 24 * time.Hour

func lotPK(key string, shard int) string { return fmt.Sprintf("P#%s#%d", keyName(key), shard) }

// groupPrefix starts the sort keys of an ordered group: its digest, because an
// ordering key may be any string.
func groupPrefix(group string) string { return "O#" + digest(group, 8) + "#" }

// unordered starts the sort keys of deliveries in no group. It sorts after
// groupPrefix: those whose order is promised are released first.
const unordered = "U#"

func spotKey(sp parking.Spot) table.Key {
	place := fmt.Sprintf("%s#%06d#%04d#%06d", sp.Activity, sp.Chunk, sp.Position, sp.Generation)
	if sp.Group != "" {
		return table.Key{
			PK: lotPK(sp.Key, shard(sp.Group, parking.Shards)),
			SK: groupPrefix(sp.Group) + sp.Sequence + "#" + place,
		}
	}
	return table.Key{PK: lotPK(sp.Key, shard(place, parking.Shards)), SK: unordered + place}
}

// Park implements parking.Store.
func (s *Store) Park(ctx context.Context, ps []parking.Parked) error {
	items := make(map[table.Key]table.Item, len(ps))
	bodies := make(map[activity.ID]sharedBody)
	for _, p := range ps {
		shared, seen := bodies[p.Activity.ID]
		if !seen {
			var err error
			if shared, err = shareBody(p, ps); err != nil {
				return err
			}
			bodies[p.Activity.ID] = shared
		}
		it, err := packParked(p, len(shared.parts))
		if err != nil {
			return err
		}
		items[it.Key] = it
		for _, part := range shared.parts {
			part.Expires = it.Expires
			if part.Expires.Before(items[part.Key].Expires) {
				part.Expires = items[part.Key].Expires
			}
			items[part.Key] = part
		}
	}
	parts, spots := make([]table.Item, 0, len(items)), make([]table.Item, 0, len(ps))
	for _, it := range items {
		if it.SK[0] == bodyPrefix[0] {
			parts = append(parts, it)
		} else {
			spots = append(spots, it)
		}
	}
	// Bodies first: a spot is never without the body it refers to.
	if err := s.t.PutAll(ctx, parts); err != nil {
		return fmt.Errorf("park the body of an activity: %w", err)
	}
	if err := s.t.PutAll(ctx, spots); err != nil {
		return fmt.Errorf("park deliveries: %w", err)
	}
	return nil
}

func packParked(p parking.Parked, bodyParts int) (table.Item, error) {
	i := parkedItem{
		Activity: p.Activity, Delivery: p.Delivery, Since: millis(p.Since), GiveUp: millis(p.GiveUp),
		Attempted: p.Attempted, Group: p.Group, Sequence: p.Sequence, Body: bodyParts,
	}
	if bodyParts > 0 {
		i.Activity.Body = ""
	}
	data, err := parkedPacking.pack(i)
	return table.Item{Key: spotKey(p.Spot()), Data: data, Expires: p.GiveUp.Add(parkedSlack)}, err
}

// ParkedUnder implements parking.Store.
func (s *Store) ParkedUnder(ctx context.Context, key string, shard int, cursor string, limit int) ([]parking.Parked, string, error) {
	r := table.Range{PK: lotPK(key, shard), Limit: limit}
	if cursor != "" {
		r.From = cursor + "\x00"
	}
	list, more, err := s.t.Query(ctx, r)
	if err != nil {
		return nil, "", fmt.Errorf("read what is parked under %s: %w", key, err)
	}
	next := ""
	if more {
		next = list[len(list)-1].SK
	}
	ps := make([]parking.Parked, 0, len(list))
	bodies := make(map[activity.ID]int)
	for _, it := range list {
		if s.expired(it) {
			continue
		}
		var i parkedItem
		if err := parkedPacking.unpack(it, &i); err != nil {
			return nil, "", err
		}
		if i.Body > 0 {
			bodies[i.Activity.ID] = i.Body
		}
		ps = append(ps, parking.Parked{
			Key: key, Activity: i.Activity, Delivery: i.Delivery,
			Since: fromMillis(i.Since), GiveUp: fromMillis(i.GiveUp),
			Attempted: i.Attempted, Group: i.Group, Sequence: i.Sequence,
		})
	}
	return ps, next, s.fillBodies(ctx, ps, bodies)
}

// ParkedBefore implements parking.Store.
func (s *Store) ParkedBefore(ctx context.Context, key, group, sequence string) (bool, error) {
	r := table.Range{PK: lotPK(key, shard(group, parking.Shards)), From: groupPrefix(group), Limit: 10}
	r.To = r.From + sequence
	for {
		list, more, err := s.t.Query(ctx, r)
		if err != nil {
			return false, fmt.Errorf("read what is parked of group %q: %w", group, err)
		}
		for _, it := range list {
			if !s.expired(it) {
				return true, nil
			}
		}
		if !more {
			return false, nil
		}
		r.From = list[len(list)-1].SK + "\x00"
	}
}

// IsParked implements parking.Store.
func (s *Store) IsParked(ctx context.Context, spots []parking.Spot) (map[parking.Spot]bool, error) {
	keys := make(map[table.Key]bool, len(spots))
	for _, sp := range spots {
		keys[spotKey(sp)] = true
	}
	items, err := s.t.Get(ctx, distinct(keys)...)
	if err != nil {
		return nil, fmt.Errorf("look for parked deliveries: %w", err)
	}
	taken := make(map[parking.Spot]bool, len(items))
	for _, sp := range spots {
		if it, _ := s.live(items, spotKey(sp)); it != nil {
			taken[sp] = true
		}
	}
	return taken, nil
}

// Unpark implements parking.Store.
func (s *Store) Unpark(ctx context.Context, spots []parking.Spot) error {
	keys := make(map[table.Key]bool, len(spots))
	for _, sp := range spots {
		keys[spotKey(sp)] = true
	}
	if err := s.t.DeleteAll(ctx, distinct(keys)); err != nil {
		return fmt.Errorf("empty parking spots: %w", err)
	}
	return nil
}
