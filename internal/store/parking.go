package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/table"
	"fedpost/internal/message"
	"fedpost/internal/servers/parking"
)

var _ parking.Store = (*Store)(nil)

// parkedItem is parking.Parked as it is stored.
type parkedItem struct {
	// Activity has no body if the body is stored apart, in as many parts as Body
	// says.
	Activity  activity.Activity `json:"activity"`
	Delivery  message.Delivery  `json:"delivery"`
	Since     int64             `json:"since"`
	GiveUp    int64             `json:"giveUp"`
	Attempted bool              `json:"attempted,omitempty"`
	Group     string            `json:"group,omitempty"`
	Sequence  string            `json:"sequence,omitempty"`
	Body      int               `json:"bodyParts,omitempty"`
	// Key is set if the item is in the due index, where the partition key is not
	// enough to know the lot.
	Key string `json:"key,omitempty"`
}

func headShard(shard int) string { return fmt.Sprintf("head#%d", shard) }

func lotPK(key string, shard int) string { return fmt.Sprintf("P#%s#%d", keyName(key), shard) }

// groupPrefix starts the sort keys of an ordered group: its digest, because an
// ordering key may be any string.
func groupPrefix(group string) string { return "O#" + digest(group, 8) + "#" }

// unordered starts the sort keys of deliveries in no group. It sorts after
// groupPrefix, so ordered deliveries are released first.
const unordered = "U#"

func parkedKey(id parking.ID) table.Key {
	if id.StoreKey != "" {
		return tableKey(id.StoreKey)
	}
	unit := unitKey(id.Unit)
	if id.Group != "" {
		return table.Key{
			PK: lotPK(id.Key, shard(id.Group, parking.Shards)),
			SK: groupPrefix(id.Group) + id.Sequence + "#" + unit,
		}
	}
	return table.Key{PK: lotPK(id.Key, shard(unit, parking.Shards)), SK: unordered + unit}
}

func (s *Store) Park(ctx context.Context, ps []parking.Parked) error {
	all := make([]carrier, len(ps))
	for i, p := range ps {
		all[i] = carrier{p.Activity, p.GiveUp, func(a activity.Activity, bodyParts int) (table.Item, error) {
			i := parkedItem{
				Activity: a, Delivery: p.Delivery, Since: millis(p.Since), GiveUp: millis(p.GiveUp),
				Attempted: p.Attempted, Group: p.Group, Sequence: p.Sequence, Body: bodyParts,
			}
			it := table.Item{Key: parkedKey(p.ID())}
			if !p.Due.IsZero() {
				i.Key = p.Key
				it.Due = table.Due{Shard: headShard(shard(p.Key, parking.Shards)), At: p.Due}
			}
			var err error
			it.Data, err = parkedPacking.pack(i)
			return it, err
		}}
	}
	return wrapped(s.putCarriers(ctx, all), "park deliveries")
}

func (s *Store) ParkedUnder(ctx context.Context, key string, shard int, cursor string, limit int) ([]parking.Parked, string, error) {
	ps, next, err := s.parkedIn(ctx, key, table.Range{PK: lotPK(key, shard), From: after(cursor), Limit: limit})
	return ps, next, wrapped(err, "read what is parked under %s", key)
}

// parkedIn reads a range of a lot. It also returns the cursor to go on from.
func (s *Store) parkedIn(ctx context.Context, key string, r table.Range) ([]parking.Parked, string, error) {
	list, next, err := s.page(ctx, r)
	if err != nil {
		return nil, "", err
	}
	ps, err := s.unpackParked(ctx, key, list)
	return ps, next, err
}

func (s *Store) DueHeads(ctx context.Context, shard int, by time.Time, limit int) ([]parking.Parked, error) {
	list, err := s.t.Due(ctx, headShard(shard), by, limit)
	if err != nil {
		return nil, fmt.Errorf("find heads of groups that are due: %w", err)
	}
	ps, err := s.unpackParked(ctx, "", list)
	return ps, wrapped(err, "read heads of groups that are due")
}

// unpackParked reads parked deliveries from items. key is their lot; if key is empty,
// each item names its own.
func (s *Store) unpackParked(ctx context.Context, key string, list []table.Item) ([]parking.Parked, error) {
	ps := make([]parking.Parked, 0, len(list))
	apart := make(map[activity.ID]int)
	for _, it := range slices.DeleteFunc(list, s.expired) {
		p, bodyParts, err := readParked(key, it)
		switch {
		case err != nil && parkedPacking.newer(it.Data):
			return nil, err
		case err != nil:
			if p, err = s.salvage(ctx, key, it, err); err != nil {
				return nil, err
			}
		case bodyParts > 0 && p.Activity.Apart.Parts == 0:
			apart[p.Activity.ID] = bodyParts
		}
		if it.Due.Shard != "" {
			p.Due = it.Due.At
		}
		ps = append(ps, p)
	}
	bodies, err := s.bodies(ctx, apart)
	if err != nil {
		return nil, err
	}
	for i, p := range ps {
		if apart[p.Activity.ID] == 0 || p.Activity.Body != "" || p.Damaged != nil {
			continue
		}
		body, ok := bodies[p.Activity.ID]
		if !ok {
			// Such a delivery is not sent, but given up, and must hold up no other.
			ps[i].Damaged = errNoBody(p.Activity.ID)
		}
		ps[i].Activity.Body = body
	}
	return ps, nil
}

// readParked reads an item, and in how many parts its activity's body is kept apart.
func readParked(key string, it table.Item) (p parking.Parked, bodyParts int, err error) {
	var i parkedItem
	if err := parkedPacking.unpack(it, &i); err != nil {
		return p, 0, err
	}
	p = parking.Parked{
		Key: cmp.Or(key, i.Key), Activity: i.Activity, Delivery: i.Delivery,
		Since: fromMillis(i.Since), GiveUp: fromMillis(i.GiveUp),
		Attempted: i.Attempted, Group: i.Group, Sequence: i.Sequence,
	}
	if len(p.Delivery.Targets) != 1 || parkedKey(p.ID()) != it.Key {
		return p, 0, fmt.Errorf("%w: %s %s: it says something else", errDamaged, it.PK, it.SK)
	}
	return p, i.Body, nil
}

func (s *Store) ParkedBefore(ctx context.Context, key, group, sequence string) (bool, error) {
	r := table.Range{PK: lotPK(key, shard(group, parking.Shards)), From: groupPrefix(group), Limit: 10}
	r.To = r.From + sequence
	for {
		list, last, err := s.page(ctx, r)
		if err != nil {
			return false, fmt.Errorf("read what is parked of group %q: %w", group, err)
		}
		if len(list) > 0 || last == "" {
			return len(list) > 0, nil
		}
		r.From = after(last)
	}
}

func (s *Store) IsParked(ctx context.Context, ids []parking.ID) (map[parking.ID]bool, error) {
	items, err := s.t.Get(ctx, keysOf(ids, parkedKey)...)
	if err != nil {
		return nil, fmt.Errorf("look for parked deliveries: %w", err)
	}
	taken := make(map[parking.ID]bool, len(items))
	for _, id := range ids {
		if it, _ := s.live(items, parkedKey(id)); it != nil {
			taken[id] = true
		}
	}
	return taken, nil
}

// countPage is how many deliveries CountParked reads at a time.
const countPage = 500

func (s *Store) CountParked(ctx context.Context, key string, most int) (int, error) {
	n := 0
	for shard := range parking.Shards {
		r := table.Range{PK: lotPK(key, shard)}
		for n < most {
			r.Limit = min(countPage, most-n)
			list, last, err := s.page(ctx, r)
			if err != nil {
				return 0, fmt.Errorf("count what is parked under %s: %w", key, err)
			}
			n += len(list)
			if r.From = after(last); last == "" {
				break
			}
		}
	}
	return n, nil
}

func (s *Store) Unpark(ctx context.Context, ids []parking.ID) error {
	return wrapped(s.t.DeleteAll(ctx, keysOf(ids, parkedKey)), "remove parked deliveries")
}
