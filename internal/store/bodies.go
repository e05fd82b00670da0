package store

import (
	"context"
	"fmt"

	"fedpost/internal/activity"
	"fedpost/internal/parking"
	"fedpost/internal/table"
)

// A large body is parked once for all deliveries of its activity that are
// parked together, beside the activity's record, not with each of them.

// bodyPrefix starts the sort keys of an activity's body.
const bodyPrefix = "BODY#"

// bodyPart is how large a part of a body is, in bytes: well within an item.
const bodyPart = 256 << 10

func bodyKey(id activity.ID, n int) table.Key {
	return table.Key{PK: activityPK(id), SK: fmt.Sprintf("%s%04d", bodyPrefix, n)}
}

// sharedBody is the body of an activity that is kept apart; no parts if it is
// not.
type sharedBody struct{ parts []table.Item }

// writeUnit is the unit that a table bills writes in, in bytes.
const writeUnit = 1024

// shareBody decides whether the body of p's activity is kept apart from those
// of ps that are of the same activity: if that costs fewer write units, or if
// it would not fit in an item.
func shareBody(p parking.Parked, ps []parking.Parked) (sharedBody, error) {
	it, err := packParked(p, 0)
	if err != nil {
		return sharedBody{}, err
	}
	deliveries := 0
	for _, other := range ps {
		if other.Activity.ID == p.Activity.ID {
			deliveries++
		}
	}
	units := (it.Size() + writeUnit - 1) / writeUnit
	if len(it.Data) <= bodyPart && deliveries*units <= deliveries+units {
		return sharedBody{}, nil
	}
	data, err := parkedPacking.pack(p.Activity.Body)
	if err != nil {
		return sharedBody{}, err
	}
	var parts []table.Item
	for n := 0; len(data) > 0; n++ {
		part := data[:min(bodyPart, len(data))]
		data = data[len(part):]
		parts = append(parts, table.Item{Key: bodyKey(p.Activity.ID, n), Data: part})
	}
	return sharedBody{parts}, nil
}

// fillBodies puts in the bodies of those activities that have theirs apart, in
// so many parts.
func (s *Store) fillBodies(ctx context.Context, ps []parking.Parked, parts map[activity.ID]int) error {
	var keys []table.Key
	for id, n := range parts {
		for i := range n {
			keys = append(keys, bodyKey(id, i))
		}
	}
	if len(keys) == 0 {
		return nil
	}
	items, err := s.t.Get(ctx, keys...)
	if err != nil {
		return fmt.Errorf("read the bodies of parked activities: %w", err)
	}
	bodies := make(map[activity.ID]string, len(parts))
	for id, n := range parts {
		whole := table.Item{Key: bodyKey(id, 0)}
		for i := range n {
			it, ok := items[bodyKey(id, i)]
			if !ok {
				return fmt.Errorf("part %d of the body of parked activity %s is missing", i, id)
			}
			whole.Data = append(whole.Data, it.Data...)
		}
		var body string
		if err := parkedPacking.unpack(whole, &body); err != nil {
			return err
		}
		bodies[id] = body
	}
	for i, p := range ps {
		if parts[p.Activity.ID] > 0 && p.Activity.Body == "" {
			ps[i].Activity.Body = bodies[p.Activity.ID]
		}
	}
	return nil
}
