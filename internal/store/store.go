// Package store implements the storage verbs of fedpost's domain packages (claim a chunk, park a
// delivery, list servers that are due) on the table port, one file per idea.
//
// Every engine has the same verbs on its table.Table. What a verb promises is said in the interface
// that the domain package declares; storetest tests it.
//
// A table bills writes by the kilobyte, so records that are written often are packed: see packing.
package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"fedpost/internal/engine/table"
	"fedpost/internal/ledger/events"
)

// Store keeps fedpost's records in one table.
type Store struct {
	t   table.Table
	now func() time.Time
	// worker is the prefix of the names of all owners that can be alive; empty if
	// other processes work on the table, too.
	worker string
	// keepEvents is how long events are kept; notifier is notified when some are appended.
	keepEvents time.Duration
	notifier   *events.Notifier
	logs       [events.Shards]*logWriters
	joins      *[events.Shards]joining
}

// New returns a store on t. now is the clock by which items expire.
func New(t table.Table, now func() time.Time) *Store {
	s := &Store{t: t, now: now, keepEvents: events.Keep, joins: new([events.Shards]joining)}
	for i := range s.logs {
		s.logs[i] = &logWriters{lock: make(chan struct{}, 1)}
	}
	return s
}

// Alone returns the store of a process that is the only one on the table, and whose
// owners all have names that begin with worker. A claim of any other owner is of a
// process that has died, so it counts as lapsed.
func (s *Store) Alone(worker string) *Store {
	c := *s
	c.worker = worker
	return &c
}

// WithEvents returns the store of a process that keeps events for keep (0: events.Keep) and
// notifies readers of the feed by notifier, which may be nil.
func (s *Store) WithEvents(keep time.Duration, notifier *events.Notifier) *Store {
	c := *s
	c.keepEvents, c.notifier = cmp.Or(keep, events.Keep), notifier
	return &c
}

// revoke ends the claim in c if its owner is dead.
func (s *Store) revoke(c *chunkState) {
	if c.Until != 0 && s.worker != "" && !strings.HasPrefix(c.Owner, s.worker) {
		c.Until = revoked
	}
}

// revoked is the time at which claims of dead processes have ended: long ago. It is
// not 0, which would mean that the owner itself has ended the claim.
const revoked = 1

// expired reports whether an item is past its expiry. DynamoDB deletes such items up
// to days later.
func (s *Store) expired(it table.Item) bool {
	return !it.Expires.IsZero() && !it.Expires.After(s.now())
}

// wrapped is err with what has failed in front; nil for nil.
func wrapped(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

func encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	return b, wrapped(err, "encode record")
}

// jsonItem is an item that has v as JSON.
func jsonItem(k table.Key, v any, expires time.Time) (table.Item, error) {
	data, err := encode(v)
	return table.Item{Key: k, Data: data, Expires: expires}, err
}

func decode(it table.Item, v any) error {
	return wrapped(json.Unmarshal(it.Data, v), "decode record %s %s", it.PK, it.SK)
}

func decoded[T any](it table.Item) (v T, err error) { return v, decode(it, &v) }

// unpacked returns what unpack reads from each item that it can read, and an error for the others.
func unpacked[T any](items []table.Item, unpack func(table.Item) (T, error)) ([]T, error) {
	all, errs := make([]T, 0, len(items)), []error(nil)
	for _, it := range items {
		v, err := unpack(it)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, v)
	}
	return all, errors.Join(errs...)
}

// Writable returns an error if the table cannot be written. It writes one item of one
// unit, always the same.
func (s *Store) Writable(ctx context.Context) error {
	it := table.Item{Key: table.Key{PK: "H#", SK: "WRITABLE"}, Expires: s.now().Add(24 * time.Hour)}
	return wrapped(s.t.Put(ctx, it, table.Cond{}), "write to the table")
}
