package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"fedpost/internal/activity"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
	"fedpost/internal/ledger/events"
)

// watched is an activity whose end is to be recorded as an event.
//
// A count of unfinished recipients would cost a write for each of them, or make all workers wait
// for one item. Instead the item of such an activity is due at growing intervals, and the activity
// is checked then, until it is done. The event and the end of the item are one transaction.
type watched struct {
	About events.About `json:"about"`
	Since int64        `json:"since"`
	// Done: the event is recorded. The item stays, so that a late copy of the activity's message
	// does not begin to watch again.
	Done bool `json:"told,omitempty"`
}

const watchPrefix = "Y#"

func watchKey(id activity.ID) table.Key { return table.Key{PK: watchPrefix + string(id), SK: "WATCH"} }

// watchShards is how many parts the schedule of looks has.
const watchShards = 4

func watchShard(n int) string { return fmt.Sprintf("watch#%d", n) }

// watchItem is w as an item that is due at a time; zero: never again.
func watchItem(id activity.ID, w watched, due, forget time.Time) (table.Item, error) {
	it, err := jsonItem(watchKey(id), w, forget)
	it.Fence = newFence()
	if !due.IsZero() {
		it.Due = table.Due{Shard: watchShard(shard(string(id), watchShards)), At: due}
	}
	return it, err
}

// Intervals between looks at an activity: a quarter of its age.
const (
	firstLook  = time.Minute
	laterLooks = time.Hour
)

// Watch begins to watch an activity. Repeating it is harmless, also after the event. forget is when
// the activity's records end.
func (s *Store) Watch(ctx context.Context, id activity.ID, about events.About, forget time.Time) error {
	there, free, err := s.one(ctx, watchKey(id))
	if err != nil || there != nil {
		return wrapped(err, "watch activity %s", id)
	}
	it, err := watchItem(id, watched{About: about, Since: millis(s.now())}, s.now().Add(firstLook), forget)
	if err != nil {
		return err
	}
	return wrapped(onConflict(s.t.Put(ctx, it, free), nil), "watch activity %s", id)
}

// Finish records the event of a watched activity if it is done.
func (s *Store) Finish(ctx context.Context, id activity.ID) error {
	it, _, err := s.one(ctx, watchKey(id))
	if err != nil || it == nil {
		return wrapped(err, "finish activity %s", id)
	}
	_, err = s.finish(ctx, id, *it)
	return err
}

// finish records the event of an activity if it is done. open is true if another look is needed.
func (s *Store) finish(ctx context.Context, id activity.ID, it table.Item) (open bool, err error) {
	var w watched
	if err := decode(it, &w); err != nil || w.Done {
		return false, err
	}
	v, err := ledger.ViewOf(ctx, s, id, "", 1, s.now())
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		// A worker may still write the record, or the record has expired, and the item will.
		return true, nil
	case err != nil:
		return true, fmt.Errorf("finish activity %s: %w", id, err)
	case v.Status != ledger.StatusDone && v.Status != ledger.StatusCancelled:
		return true, nil
	}
	for state := range v.Counts {
		if !state.Final() {
			return true, nil // cancelled, and its last attempts are under way
		}
	}
	w.Done = true
	next, err := watchItem(id, w, time.Time{}, it.Expires)
	if err != nil {
		return false, err
	}
	now := s.now()
	e := events.OfActivity(id, w.About, counted(v.Counts))
	err = s.appendTo(ctx, appending{
		shard: shard(string(id), events.Shards), since: now, until: now, with: []table.Op{{Put: &next, Cond: table.Fenced(it.Fence)}},
		events: func(map[string]bool) ([]events.Event, error) { return []events.Event{e}, nil },
	})
	if errors.Is(err, table.ErrConflict) {
		return false, nil // another process has recorded it, or looks at it
	}
	return err != nil, err
}

// counted leaves out states that no recipient is in.
func counted(counts map[activity.State]int) map[activity.State]int {
	some := map[activity.State]int{}
	for state, n := range counts {
		if n > 0 {
			some[state] = n
		}
	}
	return some
}

// mostWatched is how many activities of a shard one run looks at.
const mostWatched = 500

// FinishDue checks the activities that are due. One that cannot be read holds up no other.
func (s *Store) FinishDue(ctx context.Context, now time.Time) error {
	var errs []error
	for n := range watchShards {
		due, err := s.t.Due(ctx, watchShard(n), now, mostWatched)
		if err != nil {
			errs = append(errs, fmt.Errorf("find activities that may be done: %w", err))
			continue
		}
		failed := make([]error, len(due))
		var g errgroup.Group
		g.SetLimit(4)
		for i, it := range due {
			g.Go(func() error {
				failed[i] = s.lookAgain(ctx, it.Key, now)
				return nil
			})
		}
		_ = g.Wait() // the errors are in failed
		failed = slices.DeleteFunc(failed, func(err error) bool { return err == nil })
		if len(failed) > 0 {
			errs = append(errs, fmt.Errorf("look at activities that may be done: %d of %d failed, the first: %w", len(failed), len(due), failed[0]))
		}
	}
	return errors.Join(errs...)
}

// NextWatch returns when FinishDue has to look at something next, or last, whichever is earlier.
func (s *Store) NextWatch(ctx context.Context, last time.Time) (time.Time, error) {
	for n := range watchShards {
		due, err := s.t.Due(ctx, watchShard(n), last, 1)
		if err != nil {
			return last, fmt.Errorf("find activities that may be done: %w", err)
		}
		if len(due) > 0 && due[0].Due.At.Before(last) {
			last = due[0].Due.At
		}
	}
	return last, nil
}

// lookAgain looks at a watched activity and, if it is not done or the look fails, says when
// next: an activity that can never be read would be the first of each run.
func (s *Store) lookAgain(ctx context.Context, key table.Key, now time.Time) error {
	items, err := s.t.Get(ctx, key)
	if err != nil {
		return err
	}
	it, ok := items[key]
	if !ok || it.Due.Shard == "" || it.Due.At.After(now) {
		return nil // the index is stale
	}
	id := activity.ID(strings.TrimPrefix(key.PK, watchPrefix))
	open, failed := s.finish(ctx, id, it)
	if failed == nil && !open || ctx.Err() != nil {
		return failed
	}
	wait := laterLooks
	var w watched
	if decode(it, &w) == nil {
		wait = min(max(now.Sub(fromMillis(w.Since))/4, firstLook), laterLooks)
	}
	next := it
	next.Fence, next.Due.At = newFence(), now.Add(wait)
	err = onConflict(s.t.Put(ctx, next, table.Fenced(it.Fence)), nil)
	return errors.Join(failed, wrapped(err, "look at activity %s later", id))
}
