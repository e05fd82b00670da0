package deliver

import (
	"context"
	"fmt"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/message"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
)

// The FIFO queue keeps ordered deliveries in order, retries included: it hands out one
// message of a group at a time, and a message that waits for its next attempt holds its
// group. But the queue does not know of the parking lot. So a parked delivery keeps its
// spot until it is final. Every delivery of a group looks for a parked predecessor, always
// in the table and never in a cache, and parks behind it. A delivery that leaves the lot
// releases the next one.

// keepOrder parks a target if an earlier delivery of its group is parked. read has the
// states that were read for this unit.
func (u *unit) keepOrder(ctx context.Context, j *job, read map[string]circuit.State) error {
	key := circuit.HostKey(j.host)
	if !read[key].Parked {
		return nil
	}
	before, err := u.Lot.Spots.ParkedBefore(ctx, key, message.GroupOf(u.a, j.host), u.a.Sequence)
	if err != nil {
		return fmt.Errorf("look for what is parked before: %w", err)
	}
	if before {
		j.attempt, j.state, j.lot, j.hold = false, activity.Parked, key, true
	}
	return nil
}

// soon is how far ahead the slot of a delivery may be to wait for it on the ordered queue,
// where it is received twice, and not in the lot.
const soon = 10 * time.Minute

// leaveGroup empties the unit's spot and releases the next of its group. If the delivery
// was over before this message came, the spot is most likely empty: a worker and the
// scheduled run may release the same delivery. So the spot is read first, which costs a
// fifth of a write.
func (u *unit) leaveGroup(ctx context.Context, wasOver bool) error {
	host := u.d.Targets[0].Host()
	key, group := circuit.HostKey(host), message.GroupOf(u.a, host)
	spots := []parking.Spot{{
		Key: key, Unit: u.id, Group: group, Sequence: u.a.Sequence,
	}}
	taken := true
	if wasOver {
		found, err := u.Lot.Spots.IsParked(ctx, spots)
		if err != nil {
			return fmt.Errorf("leave the lot: %w", err)
		}
		taken = found[spots[0]]
	}
	if taken {
		if err := u.Lot.Spots.Unpark(ctx, spots); err != nil {
			return fmt.Errorf("leave the lot: %w", err)
		}
	}
	next, _, err := u.Lot.Spots.ParkedOf(ctx, key, group, "", 1)
	if err != nil {
		return fmt.Errorf("look for the next of the group: %w", err)
	}
	s := u.Hosts.State(key)
	if len(next) == 0 || !next[0].Due.IsZero() {
		return nil
	}
	switch {
	case next[0].IsOverdue(u.Now()):
		// The next delivery is overdue, so it is given up whatever its server does.
	case s.Decision(u.Now()) == circuit.Wait && !s.Works():
		return nil // the next goes when the server is back
	case u.Limiter != nil && s.Accepts(u.Now()) && s.Limited(u.Now()) > 0:
		slot, due, err := u.turn(ctx, host)
		if err != nil {
			return err
		}
		next[0].Delivery.Slot = slot
		if due.Sub(u.Now()) > soon {
			next[0].Due = due
			if err := u.Lot.Spots.Park(ctx, next); err != nil {
				return fmt.Errorf("let the next of the group wait for its turn: %w", err)
			}
			return nil
		}
	}
	if _, err := u.Lot.Send(ctx, next, parking.Release{Once: true}); err != nil {
		return fmt.Errorf("let the next of the group go: %w", err)
	}
	return nil
}
