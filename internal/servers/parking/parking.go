// Package parking holds deliveries to servers that are down.
//
// A delivery that waits on a queue costs requests for as long as it waits, makes attempts
// on a host that is known to be down, and reaches the queue's limits within days. A
// delivery that is parked in the table, under its server, costs one write and nothing while
// it waits. One probe finds out that the server is back, in place of ten thousand retries;
// then parked deliveries are released in order.
package parking

import (
	"context"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/message"
)

// Shards is how many partitions one server's lot has: a table partition takes
// 1,000 writes a second, and a large server going down is a flood. A group of
// ordered deliveries stays in one.
const Shards = 4

// Parked is one waiting delivery: a single target of an activity.
type Parked struct {
	// Key is the key of the server's or inbox's state that it waits for.
	Key      string
	Activity activity.Activity
	Delivery message.Delivery // of one target
	Since    time.Time
	// GiveUp is the time from which on the delivery is given up when it is released.
	GiveUp time.Time
	// Group and Sequence keep the order of ordered deliveries; empty otherwise.
	Group, Sequence string
	// Due is when the head of an ordered group is released by itself, for its own next
	// try or at its slot under a rate limit. Zero: the delivery waits for its server like
	// all others of the lot.
	Due time.Time
	// Attempted says whether the recipient has a record in the ledger.
	Attempted bool
}

// FirstGeneration is that of the spot, and of the message it is released by, of
// a delivery that is parked before anybody has attempted it.
const FirstGeneration = 1

// Spot is the name of a delivery's place in a lot.
type Spot struct {
	Key string
	message.Unit
	Group, Sequence string
}

// Spot returns the place of p.
func (p Parked) Spot() Spot {
	return Spot{p.Key, p.Delivery.Unit(p.Activity.ID), p.Group, p.Sequence}
}

// Store is what parking needs of its storage.
type Store interface {
	// Park puts deliveries in their spots. Parking one twice is harmless.
	// One write each.
	Park(ctx context.Context, ps []Parked) error
	// ParkedUnder returns up to limit deliveries of one shard of a lot in order
	// (ordered ones by group and sequence, the others by age), after a cursor.
	ParkedUnder(ctx context.Context, key string, shard int, cursor string, limit int) (ps []Parked, next string, err error)
	// Heads is ParkedUnder with only the first delivery of each ordered group.
	Heads(ctx context.Context, key string, shard int, cursor string, limit int) (ps []Parked, next string, err error)
	// ParkedBefore reports whether a delivery of the group with a lower sequence
	// is parked under key.
	ParkedBefore(ctx context.Context, key, group, sequence string) (bool, error)
	// ParkedOf returns up to limit deliveries of one group that are parked under
	// key, by sequence, after a cursor.
	ParkedOf(ctx context.Context, key, group, cursor string, limit int) (ps []Parked, next string, err error)
	// DueHeads returns deliveries of a shard whose Due is at or before a time,
	// earliest first. It may lag behind writes.
	DueHeads(ctx context.Context, shard int, by time.Time, limit int) ([]Parked, error)
	// IsParked returns those of the spots that are taken.
	IsParked(ctx context.Context, spots []Spot) (map[Spot]bool, error)
	// Unpark empties spots.
	Unpark(ctx context.Context, spots []Spot) error
}
