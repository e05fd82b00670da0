package deliver

import (
	"context"
	"maps"
	"slices"

	"fedpost/internal/activity"
	"fedpost/internal/message"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
)

// spotGeneration is the generation of the spot in which a delivery of this unit is parked,
// and of the message that releases it. An unordered delivery that is parked again gets
// another spot, so that a release that empties the old spot late does not remove the new
// one. An ordered delivery keeps its spot until it is final.
func (u *unit) spotGeneration() int {
	if u.a.Ordered() {
		return max(1, u.d.Generation)
	}
	return u.d.Generation + 1
}

// park parks what was decided to be parked, lot by lot.
func (u *unit) park(ctx context.Context) error {
	lots := map[string][]parking.Parked{}
	holds := map[string]bool{}
	for _, j := range u.jobs {
		if j.state == activity.Parked {
			lots[j.lot] = append(lots[j.lot], u.parked(j))
			holds[j.lot] = j.hold
		}
	}
	for _, key := range slices.Sorted(maps.Keys(lots)) {
		ps := lots[key]
		if err := u.parkUnder(ctx, key, holds[key], ps); err != nil {
			return err
		}
		u.Meter.Counted("Parked", len(ps))
	}
	return nil
}

func (u *unit) parked(j *job) parking.Parked {
	return parking.Parked{
		Key: j.lot, Activity: u.a,
		Delivery: u.one(j, u.spotGeneration()),
		Since:    u.Now(), GiveUp: u.giveUpAt(), Due: j.due,
		Group: message.GroupOf(u.a, j.host), Sequence: u.a.Sequence,
		Attempted: j.attempts > 0,
	}
}

// finishParking finishes what an earlier receive of this message began, whose worker died or
// failed after it had written the spots. Otherwise a spot that nobody looks for might be left
// when the delivery is over, and hold up its group. A delivery with a record was claimed
// before it was parked, so its claim has lapsed then. An ordered delivery that was released
// keeps its spot, and is parked in no new one.
func (u *unit) finishParking(ctx context.Context) error {
	switch policy := u.route.Policy; {
	case !policy.Park && !policy.Circuit, u.a.Ordered() && u.d.Generation > 0, !u.known.Lapsed && !u.cameBefore():
		return nil
	}
	var spots []parking.Spot
	for _, j := range u.jobs {
		if j.recorded && !u.known.Lapsed {
			continue
		}
		sp := parking.Spot{Key: circuit.HostKey(j.host), Group: message.GroupOf(u.a, j.host), Sequence: u.a.Sequence}
		sp.Unit = u.one(j, u.spotGeneration()).Unit(u.a.ID)
		spots = append(spots, sp)
		if u.a.Ordered() {
			continue
		}
		for _, key := range j.place.Inboxes {
			sp.Key = key
			spots = append(spots, sp)
		}
	}
	if len(spots) == 0 {
		return nil
	}
	return u.Lot.Finish(ctx, spots)
}

// cameBefore reports whether the message was received before, perhaps as the one that it
// was renewed from.
func (u *unit) cameBefore() bool {
	return u.m.ReceiveCount > 1 || u.m.Attributes[AttributeRenewed] != ""
}

func (u *unit) parkUnder(ctx context.Context, key string, hold bool, ps []parking.Parked) error {
	known := u.Hosts.State(key)
	host, whole := circuit.HostOf(key)
	if hold {
		return u.Lot.Hold(ctx, known, ps)
	}
	mark := func(s circuit.State) circuit.State {
		s = s.Park(u.Rules, u.Now())
		for _, p := range ps {
			s = s.OtherInbox(u.Rules, p.Delivery.Targets[0].Inbox, u.Now())
		}
		return s
	}
	if !whole && known.Accepts(u.Now()) {
		// The host accepts deliveries to others and this inbox does not: so the inbox gets
		// a circuit of its own.
		j := u.jobOf(ps[0].Delivery.Position)
		err := u.Hosts.Change(ctx, circuit.HostKey(host), func(s circuit.State) circuit.State { return s.InboxFault(u.Rules, u.Now()) })
		if err != nil {
			return err
		}
		mark = func(s circuit.State) circuit.State {
			return s.Fault(u.Rules, j.out.Reason, j.out.Err, u.Now()).Park(u.Rules, u.Now())
		}
	}
	after, err := u.Lot.Park(ctx, known, mark, ps)
	if err != nil {
		return err
	}
	u.Hosts.Set(after)
	return u.blame(ctx, known, u.jobOf(ps[0].Delivery.Position))
}

// blame opens the circuit of an inbox that has failed an ordered delivery while its server
// works, so that others to this inbox, which have ordering keys of their own, are not tried.
func (u *unit) blame(ctx context.Context, host circuit.State, j *job) error {
	if _, whole := circuit.HostOf(host.Key); !whole || !u.a.Ordered() || !j.attempt || u.d.Trial || !host.Works() || !host.Blames(j.target.Inbox, j.out) {
		return nil
	}
	if err := u.Hosts.Change(ctx, host.Key, func(s circuit.State) circuit.State { return s.InboxFault(u.Rules, u.Now()) }); err != nil {
		return err
	}
	return u.Hosts.Change(ctx, circuit.InboxKey(j.target.Inbox), func(s circuit.State) circuit.State {
		return s.Fault(u.Rules, j.out.Reason, j.out.Err, u.Now())
	})
}

func (u *unit) jobOf(position int) *job {
	for _, j := range u.jobs {
		if j.position == position {
			return j
		}
	}
	return &job{}
}
