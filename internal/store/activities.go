package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
)

// recordItem is ledger.Record as it is stored.
type recordItem struct {
	ledger.Record
	CreatedAt int64 `json:"createdAt,omitempty"`
	DueAt     int64 `json:"dueAt,omitempty"`
	ExpiresAt int64 `json:"expiresAt,omitempty"`
	// Forget is set if the item is kept for longer.
	Forget int64 `json:"forget,omitempty"`
	// Moved, if set, is the activity's real id, and all other fields are empty.
	// See CreateOrdered.
	Moved activity.ID `json:"moved,omitempty"`
}

// millis is a time in milliseconds, which take few bytes. fromMillis turns them back.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func packRecord(r ledger.Record) (table.Item, error) {
	i := recordItem{Record: r, CreatedAt: millis(r.CreatedAt), DueAt: millis(r.DueAt), ExpiresAt: millis(r.ExpiresAt)}
	expires := r.Forget
	if r.Cancelled && !expires.IsZero() {
		// Nothing else keeps a message, a parked delivery or a dead letter from being sent later.
		i.Forget, expires = millis(r.Forget), r.Forget.Add(bodySlack)
	}
	return activityPacking.item(recordKey(r.ID), i, expires)
}

// unpackRecord also returns the id that the activity has moved to, if it has.
func unpackRecord(id activity.ID, it table.Item) (r ledger.Record, moved activity.ID, err error) {
	var i recordItem
	if err := activityPacking.unpack(it, &i); err != nil {
		return ledger.Record{}, "", err
	}
	r = i.Record
	r.ID, r.Forget = id, it.Expires
	r.CreatedAt, r.DueAt, r.ExpiresAt = fromMillis(i.CreatedAt), fromMillis(i.DueAt), fromMillis(i.ExpiresAt)
	if i.Forget != 0 {
		r.Forget = fromMillis(i.Forget)
	}
	return r, i.Moved, nil
}

func (s *Store) CreateActivity(ctx context.Context, r ledger.Record) error {
	it, err := packRecord(r)
	if err != nil {
		return err
	}
	it.Unsynced = true // nothing is promised before the send
	cond := table.Free(s.now())
	for range conflictTries {
		err = s.swap(ctx, &it, cond)
		there, conflict := found(err)
		switch {
		case !conflict && err != nil:
			return fmt.Errorf("record activity %s: %w", r.ID, err)
		case !conflict:
			return nil
		case there == nil:
			return fmt.Errorf("record activity %s: %w", r.ID, err)
		}
		old, moved, err := unpackRecord(r.ID, *there)
		switch {
		case err != nil:
			return err
		case moved != "":
			// The activity was sent while it could not be recorded, and a later call, which
			// did not find it, has left a pointer to an activity of its own (CreateOrdered).
			cond = table.Fenced(there.Fence)
		case !sameActivity(old, r):
			return fmt.Errorf("record activity %s: %w", r.ID, ledger.ErrExists)
		default:
			return nil
		}
	}
	return errContended(it.Key)
}

// sameActivity reports whether two records of an id are of the same request. The time may differ if
// a call took over from a crashed one, body and type if only the key counts.
func sameActivity(a, b ledger.Record) bool {
	return a.Fingerprint == b.Fingerprint && a.Protocol == b.Protocol &&
		a.Recipients == b.Recipients && a.Targets == b.Targets && a.Chunk == b.Chunk
}

func (s *Store) DropActivity(ctx context.Context, id activity.ID) error {
	return wrapped(s.t.Delete(ctx, recordKey(id), table.Cond{}), "drop activity %s", id)
}

func (s *Store) Activity(ctx context.Context, id activity.ID) (ledger.Record, error) {
	r, _, err := s.record(ctx, id)
	return r, err
}

// record reads an activity's record. If the id is a pointer (see CreateOrdered), it
// reads the record that the pointer names.
func (s *Store) record(ctx context.Context, id activity.ID) (ledger.Record, table.Item, error) {
	for range 2 {
		it, _, err := s.one(ctx, recordKey(id))
		if err != nil {
			return ledger.Record{}, table.Item{}, fmt.Errorf("read activity %s: %w", id, err)
		}
		if it == nil {
			break
		}
		r, moved, err := unpackRecord(id, *it)
		if err != nil || moved == "" {
			return r, *it, err
		}
		id = moved
	}
	return ledger.Record{}, table.Item{}, fmt.Errorf("read activity %s: %w", id, ledger.ErrNotFound)
}

func (s *Store) CancelActivity(ctx context.Context, id activity.ID) error {
	return s.changeRecord(ctx, id, func(r *ledger.Record) { r.Cancelled = true })
}

// ForgetActivity implements ledger.Store. The bodies go too: whoever finds one missing
// looks whether its activity is forgotten.
func (s *Store) ForgetActivity(ctx context.Context, id activity.ID) error {
	r := table.Range{PK: activityPK(id), Limit: forgetPage}
	for more := true; more; {
		var items []table.Item
		var err error
		if items, more, err = s.t.Query(ctx, r); err != nil {
			return fmt.Errorf("forget activity %s: %w", id, err)
		}
		keys := make([]table.Key, 0, len(items))
		for _, it := range items {
			if r.From = it.SK + "\x00"; it.SK != skRecord {
				keys = append(keys, it.Key)
			}
		}
		if err := s.t.DeleteAll(ctx, keys); err != nil {
			return fmt.Errorf("forget activity %s: %w", id, err)
		}
	}
	return s.changeRecord(ctx, id, func(r *ledger.Record) { r.Cancelled, r.Forgotten, r.Inline, r.Metadata = true, true, nil, "" })
}

// forgetPage is how many items ForgetActivity removes at a time.
const forgetPage = 200

// forgotten reports whether a body is missing because its activity was forgotten.
func (s *Store) forgotten(ctx context.Context, id activity.ID) bool {
	r, err := s.Activity(ctx, id)
	return err == nil && r.Forgotten
}

func (s *Store) LoseActivity(ctx context.Context, id activity.ID, why string) (first bool, err error) {
	err = s.changeRecord(ctx, id, func(r *ledger.Record) {
		first = r.Lost == ""
		r.Lost = cmp.Or(r.Lost, why)
	})
	return first, err
}

func (s *Store) KeepActivity(ctx context.Context, id activity.ID, until time.Time) error {
	return s.changeRecord(ctx, id, func(r *ledger.Record) { r.Forget = until })
}

// changeRecord applies f to an activity's record, and writes the record only if f
// has changed Cancelled, Forgotten, Lost or Forget.
func (s *Store) changeRecord(ctx context.Context, id activity.ID, f func(*ledger.Record)) error {
	for range conflictTries {
		r, old, err := s.record(ctx, id)
		if err != nil {
			return err
		}
		if r.ID != id {
			// A pointer: only an activity that is not recorded yet was returned with this id.
			return fmt.Errorf("change activity %s: %w", id, ledger.ErrNotFound)
		}
		before := r
		if f(&r); r.Cancelled == before.Cancelled && r.Forgotten == before.Forgotten && r.Lost == before.Lost && r.Forget.Equal(before.Forget) {
			return nil
		}
		it, err := packRecord(r)
		if err != nil {
			return err
		}
		err = s.swap(ctx, &it, table.Fenced(old.Fence))
		if err == nil || !errors.Is(err, table.ErrConflict) {
			return err
		}
	}
	return errContended(recordKey(id))
}
