// Package parking holds deliveries to servers that are down.
//
// A delivery that waits on a queue costs requests, makes attempts at a host that is down, and
// reaches the queue's limits within days. One that is parked in the table costs a write, and
// nothing while it waits. One probe shows that the server is back; then parked deliveries are
// released in order.
package parking

import (
	"context"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/message"
)

// Shards is the number of partitions of a server's lot: one takes 1,000 writes a second. An
// ordered group is in one shard.
const Shards = 4

// Parked is a parked delivery to one target.
type Parked struct {
	// Key is that of the server's or inbox's state.
	Key      string
	Activity activity.Activity
	Delivery message.Delivery // of one target
	Since    time.Time
	// GiveUp is when the delivery is given up.
	GiveUp time.Time
	// Group and Sequence keep the order of ordered deliveries; empty otherwise.
	Group, Sequence string
	// Due is when the head of an ordered group is released by itself, for its next try or at
	// its slot. Zero: with all others of the lot.
	Due time.Time
	// Attempted says whether the recipient has a record in the ledger.
	Attempted bool
	// Damaged, if not nil, says why the delivery can never be sent: the activity's body is
	// missing, or what is stored cannot be read; the other fields are from the ledger. It ends
	// as dead when it is released. Read only.
	Damaged error
	// StoreKey, if not empty, is the store's own key of a damaged delivery without a recipient in
	// the ledger. Its target has no inbox, and a release drops it. Read only.
	StoreKey string
}

// FirstGeneration is the generation of a delivery that was parked before an attempt.
const FirstGeneration = 1

// ID identifies a parked delivery.
type ID struct {
	Key string
	message.Unit
	Group, Sequence string
	StoreKey        string
}

func (p Parked) ID() ID {
	return ID{p.Key, p.Delivery.Unit(p.Activity.ID), p.Group, p.Sequence, p.StoreKey}
}

// Store stores parked deliveries.
type Store interface {
	// Park stores deliveries, one write each. It may be repeated.
	Park(ctx context.Context, ps []Parked) error
	// ParkedUnder returns up to limit deliveries of a shard of a lot after a cursor, in order:
	// ordered ones by group and sequence, the others by age. One that is damaged is returned
	// with Damaged set, here and by all other methods; one that a newer version has written is
	// an error.
	ParkedUnder(ctx context.Context, key string, shard int, cursor string, limit int) (ps []Parked, next string, err error)
	// Heads is ParkedUnder with only the first delivery of each ordered group.
	Heads(ctx context.Context, key string, shard int, cursor string, limit int) (ps []Parked, next string, err error)
	// ParkedBefore reports whether a delivery of the group with a lower sequence is parked
	// under key.
	ParkedBefore(ctx context.Context, key, group, sequence string) (bool, error)
	// ParkedOf returns up to limit parked deliveries of a group, by sequence, after a cursor.
	ParkedOf(ctx context.Context, key, group, cursor string, limit int) (ps []Parked, next string, err error)
	// DueHeads returns deliveries of a shard whose Due is at or before by, earliest first. It
	// may lag behind writes.
	DueHeads(ctx context.Context, shard int, by time.Time, limit int) ([]Parked, error)
	// IsParked returns those of the ids that are parked.
	IsParked(ctx context.Context, ids []ID) (map[ID]bool, error)
	// CountParked counts the deliveries under key, up to most. It reads each.
	CountParked(ctx context.Context, key string, most int) (int, error)
	// Unpark removes deliveries.
	Unpark(ctx context.Context, ids []ID) error
}
