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

// Shards is how many partitions one server's lot has. A table partition takes
// 1,000 writes a second, and more may come when a large server goes down. All
// deliveries of an ordered group are in one shard.
const Shards = 4

// Parked is one waiting delivery: a single target of an activity.
type Parked struct {
	// Key names the state, of a server or an inbox, that the delivery waits for.
	Key      string
	Activity activity.Activity
	Delivery message.Delivery // of one target
	Since    time.Time
	// GiveUp is the time from which a release gives the delivery up instead of
	// sending it.
	GiveUp time.Time
	// Group and Sequence keep the order of ordered deliveries; empty otherwise.
	Group, Sequence string
	// Due is when the head of an ordered group is released by itself, for its own next
	// try or at its slot under a rate limit. Zero: the delivery waits for its server like
	// all others of the lot.
	Due time.Time
	// Attempted says whether the recipient has a record in the ledger.
	Attempted bool
	// Damaged, if not nil, says why the delivery can never be sent: the body of its activity
	// is missing, or what is stored cannot be read, and the rest of this is what the ledger
	// knows. It waits no longer, and ends as dead when it is released. Read only.
	Damaged error
	// Place, if not empty, is where the store has a damaged delivery of which the ledger
	// knows no recipient. Its one target has no inbox, and a release drops it. Read only.
	Place string
}

// FirstGeneration is the generation of the spot, and of the message that a
// release sends, for a delivery that is parked before its first attempt.
const FirstGeneration = 1

// Spot names a delivery's place in a lot.
type Spot struct {
	Key string
	message.Unit
	Group, Sequence string
	// Place is Parked.Place.
	Place string
}

// Spot returns the name of p's place.
func (p Parked) Spot() Spot {
	return Spot{p.Key, p.Delivery.Unit(p.Activity.ID), p.Group, p.Sequence, p.Place}
}

// Store is what parking needs of its storage.
type Store interface {
	// Park writes deliveries to their spots, one write each. Parking a delivery
	// twice is harmless.
	Park(ctx context.Context, ps []Parked) error
	// ParkedUnder returns up to limit deliveries of one shard of a lot in order
	// (ordered ones by group and sequence, the others by age), after a cursor. One that
	// cannot be read, or whose body is missing, is returned with Damaged set, here and by
	// all other methods; but what a newer version has written is an error.
	ParkedUnder(ctx context.Context, key string, shard int, cursor string, limit int) (ps []Parked, next string, err error)
	// Heads does what ParkedUnder does, with only the first delivery of each
	// ordered group.
	Heads(ctx context.Context, key string, shard int, cursor string, limit int) (ps []Parked, next string, err error)
	// ParkedBefore reports whether a delivery of the group with a lower sequence
	// is parked under key.
	ParkedBefore(ctx context.Context, key, group, sequence string) (bool, error)
	// ParkedOf returns up to limit deliveries of one group that are parked under
	// key, by sequence, after a cursor.
	ParkedOf(ctx context.Context, key, group, cursor string, limit int) (ps []Parked, next string, err error)
	// DueHeads returns the deliveries of a shard whose Due is at or before a
	// time, earliest first. The answer may lag behind writes.
	DueHeads(ctx context.Context, shard int, by time.Time, limit int) ([]Parked, error)
	// IsParked returns those of the spots that hold a delivery.
	IsParked(ctx context.Context, spots []Spot) (map[Spot]bool, error)
	// CountParked counts the deliveries under key, up to most. It reads each.
	CountParked(ctx context.Context, key string, most int) (int, error)
	// Unpark empties spots.
	Unpark(ctx context.Context, spots []Spot) error
}
