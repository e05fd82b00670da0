package deliver

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"fedpost/internal/deliver/intake"
	"fedpost/internal/deliver/verdict"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
)

// lots is the part of executor that parks deliveries.
type lots struct{ *Engine }

func (l lots) park(ctx context.Context, u *unit) error {
	lots := map[string][]*job{}
	for _, j := range u.jobs {
		if is, parks := j.verdict.(verdict.Park); parks {
			lots[is.Under] = append(lots[is.Under], j)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(lots)) {
		if err := l.parkUnder(ctx, u, key, lots[key]); err != nil {
			return err
		}
		l.Meter.Counted("Parked", len(lots[key]))
	}
	return nil
}

func (l lots) parkUnder(ctx context.Context, u *unit, key string, js []*job) error {
	ps := make([]parking.Parked, len(js))
	held := false
	for i, j := range js {
		is := j.verdict.(verdict.Park)
		held = is.Held
		ps[i] = parking.Parked{
			Key: key, Activity: u.a,
			Delivery: u.one(j, u.spotGeneration()),
			Since:    l.Now(), GiveUp: u.since().Add(u.route.Policy.GiveUp), Due: is.Due,
			Sequence: u.a.Sequence, Attempted: j.attempts > 0,
		}
		ps[i].Group = ps[i].Delivery.Group(u.a)
	}
	known := l.Hosts.State(key)
	if held {
		return l.Lot.Hold(ctx, known, ps)
	}
	mark := func(s circuit.State) circuit.State {
		s = s.Park(l.Rules, l.Now())
		for _, j := range js {
			s = s.OtherInbox(l.Rules, j.target.Inbox, l.Now())
		}
		return s
	}
	if host, whole := circuit.HostOf(key); !whole && known.Accepts(l.Now()) {
		// The host accepts deliveries to other inboxes, so this inbox gets a circuit of its
		// own.
		if err := l.inboxesOf(ctx, circuit.HostKey(host)); err != nil {
			return err
		}
		mark = func(s circuit.State) circuit.State {
			return s.Fault(l.Rules, js[0].out.Reason, js[0].out.Err, l.Now()).Park(l.Rules, l.Now())
		}
	}
	after, err := l.Lot.Park(ctx, known, mark, ps)
	if err != nil {
		return err
	}
	l.Hosts.Set(after)
	return l.blame(ctx, u, known, js[0])
}

// inboxesOf saves in a host's state that inboxes of it may have states of their own.
func (l lots) inboxesOf(ctx context.Context, host string) error {
	return l.Hosts.Change(ctx, host, func(s circuit.State) circuit.State { return s.InboxFault(l.Rules, l.Now()) })
}

// blame opens the circuit of an inbox that failed an ordered delivery while its server works,
// so that deliveries to it with other ordering keys are spared.
func (l lots) blame(ctx context.Context, u *unit, host circuit.State, j *job) error {
	if _, whole := circuit.HostOf(host.Key); !whole || !u.a.Ordered() || j.answered.IsZero() || u.d.Trial || !host.Works() || !host.Blames(j.target.Inbox, j.out) {
		return nil
	}
	if err := l.inboxesOf(ctx, host.Key); err != nil {
		return err
	}
	return l.Hosts.Change(ctx, circuit.InboxKey(j.target.Inbox), func(s circuit.State) circuit.State {
		return s.Fault(l.Rules, j.out.Reason, j.out.Err, l.Now())
	})
}

// finishParking completes what an earlier receive of this message began, if its worker died
// after writing the spots: such a spot could hold up its group for ever. A released ordered
// delivery keeps its spot and is parked in no new one.
func (l lots) finishParking(ctx context.Context, u *unit) error {
	switch policy := u.route.Policy; {
	case !policy.Park && !policy.Circuit, u.a.Ordered() && u.d.Generation > 0, !u.known.Lapsed && !intake.CameBefore(u.Received):
		return nil
	}
	var spots []parking.ID
	for _, j := range u.jobs {
		if j.recorded() && !u.known.Lapsed {
			continue
		}
		d := u.one(j, u.spotGeneration())
		sp := parking.ID{Key: circuit.HostKey(j.host), Unit: d.Unit(u.a.ID), Group: d.Group(u.a), Sequence: u.a.Sequence}
		spots = append(spots, sp)
		if u.a.Ordered() {
			d.Alone = true
			sp.Group = d.Group(u.a)
			spots = append(spots, sp)
			continue
		}
		for _, key := range j.keys.Inboxes {
			sp.Key = key
			spots = append(spots, sp)
		}
	}
	if len(spots) == 0 {
		return nil
	}
	return l.Lot.Finish(ctx, spots)
}

// soon is how far ahead the slot of an ordered delivery may be for the delivery to wait on its
// queue, where that takes two receives. For a later slot it waits in the lot.
const soon = 10 * time.Minute

// leave empties the spot of a released ordered delivery that is final, or has moved to its inbox's
// group, and releases the next one of the group. wasOver: the delivery was final before this
// message came. Then the spot is probably empty, and is read first, as a read costs a fifth of a
// write.
func (l lots) leave(ctx context.Context, u *unit, wasOver bool) error {
	if !u.a.Ordered() || u.d.Generation == 0 || !u.single() {
		return nil
	}
	host := u.d.Targets[0].Host()
	spot := parking.ID{Key: circuit.HostKey(host), Unit: u.id, Group: u.d.Group(u.a), Sequence: u.a.Sequence}
	taken := true
	if wasOver {
		found, err := l.Lot.Store.IsParked(ctx, []parking.ID{spot})
		if err != nil {
			return fmt.Errorf("leave the lot: %w", err)
		}
		taken = found[spot]
	}
	if taken {
		if err := l.Lot.Store.Unpark(ctx, []parking.ID{spot}); err != nil {
			return fmt.Errorf("leave the lot: %w", err)
		}
	}
	return l.releaseNext(ctx, spot, host)
}

// releaseNext releases the first delivery of a spot's group.
func (l lots) releaseNext(ctx context.Context, spot parking.ID, host string) error {
	next, _, err := l.Lot.Store.ParkedOf(ctx, spot.Key, spot.Group, "", 1)
	if err != nil {
		return fmt.Errorf("look for the next of the group: %w", err)
	}
	s := l.Hosts.State(spot.Key)
	if len(next) == 0 || !next[0].Due.IsZero() {
		return nil
	}
	switch {
	case next[0].IsOverdue(l.Now()):
		// An overdue delivery is given up, whatever its server does.
	case s.Decision(l.Now()) == circuit.Wait && !s.Works():
		return nil // it waits for the server
	case l.Limiter != nil && s.Accepts(l.Now()) && s.Limited(l.Now()) > 0:
		slot, due, err := l.takeSlot(ctx, host)
		if err != nil {
			return err
		}
		next[0].Delivery.Slot = slot
		if due.Sub(l.Now()) > soon {
			next[0].Due = due
			if err := l.Lot.Store.Park(ctx, next); err != nil {
				return fmt.Errorf("park the next of the group until its slot: %w", err)
			}
			return nil
		}
	}
	if _, err := l.Lot.Send(ctx, next, parking.Release{Once: true}); err != nil {
		return fmt.Errorf("release the next of the group: %w", err)
	}
	return nil
}
