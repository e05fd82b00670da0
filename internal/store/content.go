package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/deliver/deadletter"
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

// KeepContent implements ledger.Store. Workers of other chunks may have kept the same activity. One
// of a single write unit is written again, which is as cheap as a read; a larger one is read first.
func (s *Store) KeepContent(ctx context.Context, a activity.Activity, until time.Time) error {
	c := carrier{a, until, func(a activity.Activity, bodyParts int) (table.Item, error) {
		return parkedPacking.item(contentKey(a.ID), contentItem{Activity: a, Body: bodyParts}, until)
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
	return wrapped(s.putCarriers(ctx, []carrier{c}), "keep activity %s", a.ID)
}

func (s *Store) Content(ctx context.Context, id activity.ID) (activity.Activity, error) {
	it, _, err := s.one(ctx, contentKey(id))
	if err != nil {
		return activity.Activity{}, fmt.Errorf("read activity %s: %w", id, err)
	}
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
	if c.Body > 0 {
		if c.Activity.Body, err = s.body(ctx, id, c.Body); err != nil {
			return activity.Activity{}, err
		}
	}
	return c.Activity, nil
}

// Bounds of FindBody's search among the recipients of an activity.
const (
	bodyChunks = 20
	bodyItems  = 100
)

// FindBody looks for an activity's body wherever the table can have it: kept for a retry, stored
// once, parked in no ordered group, or dead. If only messages have it, or nothing, the error is
// that of Content.
func (s *Store) FindBody(ctx context.Context, id activity.ID) (string, error) {
	a, missing := s.Content(ctx, id)
	if !errors.Is(missing, ledger.ErrNoContent) {
		return a.Body, missing
	}
	parts, _, err := s.t.Query(ctx, table.Prefix(activityPK(id), bodyPrefix))
	if err != nil {
		return "", fmt.Errorf("look for the body of activity %s: %w", id, err)
	}
	if len(parts) > 0 {
		if body, err := s.body(ctx, id, len(parts)); !errors.Is(err, ledger.ErrNoBody) {
			return body, err
		}
	}
	r, err := s.Activity(ctx, id)
	if errors.Is(err, ledger.ErrNotFound) {
		return "", missing
	}
	if err != nil {
		return "", err
	}
	chunks, err := s.Chunks(ctx, r, 0, min(bodyChunks, r.Chunks())-1)
	if err != nil {
		return "", err
	}
	var keys []table.Key
	for _, c := range chunks {
		for _, p := range c.Recipients {
			if p.State == activity.Dead {
				keys = append(keys, deadLetterKey(deadletter.DeadLetter{Activity: activity.Activity{ID: id}, Last: p, Died: p.UpdatedAt}.Name()))
			}
		}
	}
	for _, id := range ledger.ParkedIDs(r, chunks) {
		keys = append(keys, parkedKey(id))
	}
	items, err := s.t.Get(ctx, keys[:min(bodyItems, len(keys))]...)
	if err != nil {
		return "", fmt.Errorf("look for the body of activity %s: %w", id, err)
	}
	for _, it := range items {
		var c contentItem // as all items that carry an activity
		if parkedPacking.unpack(it, &c) == nil && c.Activity.Body != "" {
			return c.Activity.Body, nil
		}
	}
	return "", missing
}
