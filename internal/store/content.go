package store

import (
	"context"
	"fmt"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
)

// skContent is the sort key of an activity that is kept for retries. It sorts before the
// record, so that no worker's query reads it.
const skContent = "CONTENT"

func contentKey(id activity.ID) table.Key { return table.Key{PK: activityPK(id), SK: skContent} }

// contentItem is an activity as it is stored. Activity has no body if the body is stored
// apart, in as many parts as Body says.
type contentItem struct {
	Activity activity.Activity `json:"activity"`
	Body     int               `json:"bodyParts,omitempty"`
}

// KeepContent implements ledger.Store. Workers of other chunks may have kept the same
// activity: one that takes a single unit is written again, because that is as cheap as
// to look, and of a larger one a look comes first.
func (s *Store) KeepContent(ctx context.Context, a activity.Activity, until time.Time) error {
	c := carrier{a, until, func(a activity.Activity, bodyParts int) (table.Item, error) {
		data, err := parkedPacking.pack(contentItem{Activity: a, Body: bodyParts})
		return table.Item{Key: contentKey(a.ID), Data: data, Expires: until}, err
	}}
	it, err := c.pack(a, 0)
	if err != nil {
		return err
	}
	if it.Size() > writeUnit {
		if _, err := s.Content(ctx, a.ID); err == nil {
			return nil
		}
	}
	if err := s.putCarriers(ctx, []carrier{c}); err != nil {
		return fmt.Errorf("keep activity %s: %w", a.ID, err)
	}
	return nil
}

// Content implements ledger.Store.
func (s *Store) Content(ctx context.Context, id activity.ID) (activity.Activity, error) {
	k := contentKey(id)
	items, err := s.t.Get(ctx, k)
	if err != nil {
		return activity.Activity{}, fmt.Errorf("read activity %s: %w", id, err)
	}
	it, _ := s.live(items, k)
	if it == nil {
		return activity.Activity{}, fmt.Errorf("activity %s: %w", id, ledger.ErrNoContent)
	}
	var c contentItem
	if err := parkedPacking.unpack(*it, &c); err != nil {
		if !parkedPacking.newer(it.Data) {
			err = fmt.Errorf("%w: %w", ledger.ErrNoBody, err)
		}
		return activity.Activity{}, err
	}
	if c.Body == 0 {
		return c.Activity, nil
	}
	bodies, err := s.bodies(ctx, map[activity.ID]int{id: c.Body})
	if err != nil {
		return activity.Activity{}, err
	}
	body, ok := bodies[id]
	if !ok {
		return activity.Activity{}, errNoBody(id)
	}
	c.Activity.Body = body
	return c.Activity, nil
}
