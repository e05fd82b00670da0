// Package table is the port below the store: a table of small items with conditional writes, as
// DynamoDB has them. An engine implements these eight operations, which the suite in tabletest
// checks. Package store is written on them once, so all engines have the same keys and
// conditions.
//
// An item is replaced only if it still has the fence (a token) that the writer read. The store
// changes every record by such a compare-and-swap, so engines need no update expressions.
package table

import (
	"context"
	"errors"
	"math"
	"time"
)

// Key is an item's primary key: items of one partition are sorted by SK.
type Key struct{ PK, SK string }

// Item is one item. At most MaxItem bytes in all.
type Item struct {
	Key
	// Fence is the token that a conditional write compares.
	Fence string
	// Data is the content, opaque to the table.
	Data []byte
	// Expires is when the table may drop the item; zero keeps the item for ever.
	// The table may drop it any time later: DynamoDB, days later.
	//
	// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/TTL.html
	Expires time.Time
	// Due puts the item into the due index.
	Due Due
	// Unsynced says of a write that a power cut may undo it, together with all later ones. An engine
	// may ignore it, and must if its server may crash while the caller goes on; reads do not return it.
	Unsynced bool
}

// Due is an item's place in the due index; an item with an empty Shard is not in
// the index.
type Due struct {
	Shard string
	At    time.Time
}

// MaxItem is DynamoDB's limit of an item, in bytes, names and values together.
const MaxItem = 400 << 10

// Cond is what must hold of the stored item for a write to happen. The zero value
// always holds. If several fields are set, one that holds is enough.
type Cond struct {
	// Absent: there is no item.
	Absent bool
	// ExpiredBy: the item's Expires is not after this time. An expired item
	// counts as gone although it may still be in the table.
	ExpiredBy time.Time
	// Fence: the item carries this fence. An empty Fence is not compared.
	Fence string
}

// Free returns the condition that the key has no item, or one that has expired by
// now.
func Free(now time.Time) Cond { return Cond{Absent: true, ExpiredBy: now} }

// Fenced returns the condition that the item still carries fence.
func Fenced(fence string) Cond { return Cond{Fence: fence} }

// Op is one part of a transaction: a put, a delete or only a check.
type Op struct {
	Put    *Item
	Delete *Key
	Check  *Key
	Cond   Cond
}

// Range selects items of one partition: From ≤ SK < To. An empty To is the end
// of the partition.
type Range struct {
	PK       string
	From, To string
	Limit    int // 0: all
	// Newest lists in descending order of SK, so that Limit keeps the last items.
	Newest bool
}

// Prefix selects the items of a partition whose SK starts with prefix.
func Prefix(pk, prefix string) Range {
	if prefix == "" {
		return Range{PK: pk}
	}
	end := []byte(prefix)
	end[len(end)-1]++
	return Range{PK: pk, From: prefix, To: string(end)}
}

// Table is the port. Reads are strongly consistent, except Due. Expired items are
// returned like all others until the table drops them, so callers check Expires.
type Table interface {
	// Get returns those of the keys' items that exist, for any number of keys.
	Get(ctx context.Context, keys ...Key) (map[Key]Item, error)
	// Query returns a range in ascending order of SK (descending: Newest), and
	// whether Limit cut the range short.
	Query(ctx context.Context, r Range) (items []Item, more bool, err error)
	// Put writes an item if cond holds, else returns a *ConflictError.
	Put(ctx context.Context, it Item, cond Cond) error
	// Delete removes an item if cond holds, else returns a *ConflictError.
	// Deleting a missing item without a condition is no error.
	Delete(ctx context.Context, k Key, cond Cond) error
	// PutAll writes items without conditions, in as few requests as possible.
	// Each write is atomic, all of them together are not. Keys must be distinct.
	PutAll(ctx context.Context, items []Item) error
	// DeleteAll deletes items as PutAll writes them.
	DeleteAll(ctx context.Context, keys []Key) error
	// Transact does all ops or, if one condition fails, none; up to 100 ops on
	// distinct keys. The error is a *ConflictError.
	Transact(ctx context.Context, ops []Op) error
	// Due returns up to limit items (0: all) of a shard that are due at or before
	// a time, earliest first. It may lag behind writes and return stale items:
	// callers re-check with a conditional write.
	Due(ctx context.Context, shard string, by time.Time, limit int) ([]Item, error)
}

// ErrConflict is matched by every *ConflictError.
var ErrConflict = errors.New("conditional write failed")

var ErrTooLarge = errors.New("item exceeds 400 KiB")

// ConflictError says that a condition did not hold.
type ConflictError struct {
	Key Key
	// Found is the stored item, nil if there is none or if it is not known.
	Found *Item
}

func (e *ConflictError) Error() string {
	return "conditional write failed on " + e.Key.PK + " " + e.Key.SK
}

// Is makes errors.Is(err, ErrConflict) hold.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// Why nothing can be written, where an engine knows it. Errors of calls wrap them; a later
// call succeeds once the cause is gone.
var (
	ErrDiskFull = errors.New("the disk is full")
	ErrReadOnly = errors.New("the data folder is read-only")
)

// Nanos is t in nanoseconds since 1970, as engines store it. 64 bits hold the years 1678 to
// 2261. An earlier or later time is stored as the first or last of these, so that an expiry in
// the far future does not wrap around into the past.
func Nanos(t time.Time) int64 {
	switch y := t.UTC().Year(); {
	case y > 2261:
		return math.MaxInt64
	case y < 1678:
		return math.MinInt64
	}
	return t.UnixNano()
}

// SetTimes sets an item's times from what Nanos made of them; nil for none.
func (it *Item) SetTimes(expires, due *int64, shard string) {
	if expires != nil {
		it.Expires = time.Unix(0, *expires).UTC()
	}
	if shard != "" && due != nil {
		it.Due = Due{Shard: shard, At: time.Unix(0, *due).UTC()}
	}
}
