package table

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// Limits of DynamoDB that every engine keeps.
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html
const (
	MaxPK          = 2048    // bytes
	MaxSK          = 1024    // bytes
	MaxTransact    = 100     // ops of a transaction
	MaxTransactAll = 4 << 20 // bytes of all items of a transaction
)

// overhead covers an item's attribute names and numbers, whatever an engine
// calls them, so that the limit is the same on all engines.
const overhead = 128

// ErrInvalid says that a call breaks a rule of the table.
var ErrInvalid = errors.New("not allowed by the table")

// Size is what it counts towards MaxItem, in bytes.
func (it Item) Size() int {
	return len(it.PK) + len(it.SK) + len(it.Fence) + len(it.Data) + len(it.Due.Shard) + overhead
}

// Check reports whether a table can hold it: the error wraps ErrTooLarge or
// ErrInvalid.
func (it Item) Check() error {
	if err := it.Key.Check(); err != nil {
		return err
	}
	if len(it.Due.Shard) > MaxPK {
		return fmt.Errorf("%w: shard of %d bytes, at most %d", ErrInvalid, len(it.Due.Shard), MaxPK)
	}
	if n := it.Size(); n > MaxItem {
		return fmt.Errorf("%w: %s %s has %d bytes", ErrTooLarge, it.PK, it.SK, n)
	}
	return nil
}

// Check reports whether k can be a key: two non-empty UTF-8 strings within the
// limits.
func (k Key) Check() error {
	switch {
	case k.PK == "" || k.SK == "":
		return fmt.Errorf("%w: empty key (%q, %q)", ErrInvalid, k.PK, k.SK)
	case len(k.PK) > MaxPK || len(k.SK) > MaxSK:
		return fmt.Errorf("%w: key of %d and %d bytes, at most %d and %d", ErrInvalid, len(k.PK), len(k.SK), MaxPK, MaxSK)
	case !utf8.ValidString(k.PK) || !utf8.ValidString(k.SK):
		return fmt.Errorf("%w: key (%q, %q) is not UTF-8", ErrInvalid, k.PK, k.SK)
	}
	return nil
}

// CheckAll returns the first error of items or keys that a table cannot hold.
func CheckAll[T interface{ Check() error }](all []T) error {
	for _, one := range all {
		if err := one.Check(); err != nil {
			return err
		}
	}
	return nil
}

// CheckOps reports whether ops can be one transaction.
func CheckOps(ops []Op) error {
	if len(ops) > MaxTransact {
		return fmt.Errorf("%w: %d ops in a transaction, at most %d", ErrInvalid, len(ops), MaxTransact)
	}
	seen, bytes := make(map[Key]bool, len(ops)), 0
	for _, op := range ops {
		k, err := op.check()
		if err != nil {
			return err
		}
		if seen[k] {
			return fmt.Errorf("%w: key (%q, %q) twice in a transaction", ErrInvalid, k.PK, k.SK)
		}
		seen[k] = true
		if op.Put != nil {
			bytes += op.Put.Size()
		}
	}
	if bytes > MaxTransactAll {
		return fmt.Errorf("%w: a transaction of %d bytes, at most %d", ErrTooLarge, bytes, MaxTransactAll)
	}
	return nil
}

func (op Op) Key() Key {
	switch {
	case op.Put != nil:
		return op.Put.Key
	case op.Delete != nil:
		return *op.Delete
	}
	return *op.Check
}

func (op Op) check() (Key, error) {
	switch {
	case op.Put != nil && op.Delete == nil && op.Check == nil:
		return op.Put.Key, op.Put.Check()
	case op.Delete != nil && op.Put == nil && op.Check == nil:
		return *op.Delete, op.Delete.Check()
	case op.Check != nil && op.Put == nil && op.Delete == nil:
		return *op.Check, op.Check.Check()
	}
	return Key{}, fmt.Errorf("%w: an op needs exactly one of put, delete and check", ErrInvalid)
}

// Always reports whether c holds of anything: it sets no alternative.
func (c Cond) Always() bool { return !c.Absent && c.ExpiredBy.IsZero() && c.Fence == "" }

// Holds reports whether c holds of what is stored under its key: nil if there
// is no item.
func (c Cond) Holds(stored *Item) bool {
	if c.Always() {
		return true
	}
	if stored == nil {
		return c.Absent
	}
	expired := !c.ExpiredBy.IsZero() && !stored.Expires.IsZero() && !stored.Expires.After(c.ExpiredBy)
	return expired || c.Fence != "" && stored.Fence == c.Fence
}
