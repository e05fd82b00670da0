package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/message"
	"fedpost/internal/servers/parking"
)

var lots = group{"parking", []testCase{
	{"AParkedDeliveryIsReadAsItWasWritten", func(b *bed) {
		p := b.parked(b.newLot(), b.newID(), 3)
		p.Attempted, p.Delivery.Attempts, p.Delivery.Trial = true, 5, true
		p.Activity.ExpiresAt, p.Activity.Type = b.in(time.Hour), "Create"
		p.Activity.Body = "{\"content\":\"<p>naïve & \\u2028 ☃</p>\"}\n"
		o := b.ordered(p.Key, "the group #1", 17)
		b.must(b.Park(b.ctx, []parking.Parked{p, o}))
		b.same([]parking.Parked{o, p}, byGroup(b.lot(p.Key)))
		b.must(b.Park(b.ctx, []parking.Parked{p}))
		b.must(b.Unpark(b.ctx, []parking.ID{o.ID()}))
		b.same([]parking.Parked{p}, b.lot(p.Key))
	}},
	{"ADeliveryIsParkedUntilItIsRemoved", func(b *bed) {
		p := b.parked(b.newLot(), b.newID(), 3)
		next := p
		next.Delivery.Generation++
		other := p.ID()
		other.Position++
		b.must(b.Park(b.ctx, []parking.Parked{p, next}))
		taken, err := b.IsParked(b.ctx, []parking.ID{p.ID(), next.ID(), other})
		b.must(err)
		b.same(map[parking.ID]bool{p.ID(): true, next.ID(): true}, taken)
		b.must(b.Unpark(b.ctx, []parking.ID{p.ID(), other}))
		b.must(b.Unpark(b.ctx, []parking.ID{p.ID()}))
		taken, err = b.IsParked(b.ctx, []parking.ID{p.ID(), next.ID()})
		b.must(err)
		b.same(map[parking.ID]bool{next.ID(): true}, taken)
	}},
	{"ALotIsReadPageByPageOldestFirst", func(b *bed) {
		key := b.newLot()
		var want []parking.ID
		for range 30 {
			b.advance(time.Millisecond)
			p := b.parked(key, b.newID(), 0)
			b.must(b.Park(b.ctx, []parking.Parked{p}))
			want = append(want, p.ID())
		}
		var got []parking.Parked
		for shard := range parking.Shards {
			all, next, err := b.ParkedUnder(b.ctx, key, shard, "", 100)
			b.must(err)
			if next != "" {
				b.t.Errorf("shard %d has more than all: %q", shard, next)
			}
			if !slices.IsSortedFunc(all, func(x, y parking.Parked) int { return strings.Compare(string(x.Activity.ID), string(y.Activity.ID)) }) {
				b.t.Errorf("shard %d is not in order of age", shard)
			}
			var paged []parking.Parked
			for cursor := ""; ; {
				var page []parking.Parked
				page, cursor, err = b.ParkedUnder(b.ctx, key, shard, cursor, 2)
				b.must(err)
				if len(page) > 2 {
					b.t.Errorf("a page of %d", len(page))
				}
				paged = append(paged, page...)
				if cursor == "" {
					break
				}
				// What was read is usually gone when the next page is asked for.
				for _, p := range page {
					b.must(b.Unpark(b.ctx, []parking.ID{p.ID()}))
				}
			}
			b.same(all, paged)
			got = append(got, all...)
		}
		if len(got) != len(want) {
			b.t.Errorf("%d deliveries, want %d", len(got), len(want))
		}
	}},
	{"AGroupIsReadInOrder", func(b *bed) {
		key := b.newLot()
		var ps []parking.Parked
		for _, group := range []string{"a", "b", "c", strings.Repeat("long", 300)} {
			for _, sequence := range []int{30, 4, 100, 5} {
				ps = append(ps, b.ordered(key, group, sequence))
			}
			ps = append(ps, b.parked(key, b.newID(), 0))
		}
		b.must(b.Park(b.ctx, ps))
		for shard := range parking.Shards {
			got, _, err := b.ParkedUnder(b.ctx, key, shard, "", 100)
			b.must(err)
			last := make(map[string]string)
			for i, p := range got {
				if p.Group != "" && i > 0 && got[i-1].Group != p.Group && last[p.Group] != "" {
					b.t.Errorf("group %.5q is torn apart", p.Group)
				}
				if p.Group != "" && p.Sequence <= last[p.Group] {
					b.t.Errorf("group %.5q: %s after %s", p.Group, p.Sequence, last[p.Group])
				}
				last[p.Group] = p.Sequence
			}
		}
		if n := len(b.lot(key)); n != len(ps) {
			b.t.Errorf("%d deliveries, want %d", n, len(ps))
		}
	}},
	{"HeadsAreFoundWhenTheyAreDue", func(b *bed) {
		key := b.newLot()
		p, other := b.ordered(key, "group", 7), b.ordered(key, "another", 1)
		p.Due, p.Delivery.Slot = b.in(time.Hour), b.in(time.Hour)
		b.must(b.Park(b.ctx, []parking.Parked{p, other, b.parked(key, b.newID(), 0)}))
		due := func(by time.Time) (found []parking.Parked) {
			for shard := range parking.Shards {
				ps, err := b.DueHeads(b.ctx, shard, by, 100)
				b.must(err)
				for _, p := range ps {
					if p.Key == key {
						found = append(found, p)
					}
				}
			}
			return found
		}
		b.same([]parking.Parked(nil), due(b.in(59*time.Minute)))
		b.same([]parking.Parked{p}, due(b.in(time.Hour)))
		p.Due, p.Delivery.Slot = time.Time{}, time.Time{}
		b.must(b.Park(b.ctx, []parking.Parked{p}))
		b.same([]parking.Parked(nil), due(b.in(2*time.Hour)))
		p.Due = b.in(time.Minute)
		b.must(b.Park(b.ctx, []parking.Parked{p}))
		b.must(b.Unpark(b.ctx, []parking.ID{p.ID()}))
		b.same([]parking.Parked(nil), due(b.in(2*time.Hour)))
	}},
	{"AnEarlierOneOfTheGroupIsSeen", func(b *bed) {
		key := b.newLot()
		p := b.ordered(key, "group", 7)
		b.must(b.Park(b.ctx, []parking.Parked{p, b.ordered(key, "another", 1), b.parked(key, b.newID(), 0)}))
		for sequence, want := range map[int]bool{6: false, 7: false, 8: true} {
			got, err := b.ParkedBefore(b.ctx, key, "group", fmt.Sprintf("%020d", sequence))
			b.must(err)
			if got != want {
				b.t.Errorf("before %d: %v", sequence, got)
			}
		}
		b.must(b.Unpark(b.ctx, []parking.ID{p.ID()}))
		if got, err := b.ParkedBefore(b.ctx, key, "group", fmt.Sprintf("%020d", 8)); err != nil || got {
			b.t.Errorf("after it left: %v, %v", got, err)
		}
	}},
	{"LotsOfLongNamesAreKeptApart", func(b *bed) {
		long := b.newLot() + strings.Repeat("/inbox", 500)
		one, other := b.parked(long+"a", b.newID(), 0), b.parked(long+"b", b.newID(), 0)
		b.must(b.Park(b.ctx, []parking.Parked{one, other}))
		b.same([]parking.Parked{one}, b.lot(one.Key))
		b.same([]parking.Parked{other}, b.lot(other.Key))
	}},
	{"ALargeBodyIsParkedOnceForAll", func(b *bed) {
		key, id := b.newLot(), b.newID()
		var ps []parking.Parked
		for n := range 50 {
			p := b.parked(key, id, n)
			p.Activity.Body = noise(40 << 10)
			ps = append(ps, p)
		}
		alone := b.parked(key, b.newID(), 0)
		alone.Activity.Body = noise(800 << 10) // more than an item holds
		var single cost
		all := b.table.of(func() { b.must(b.Park(b.ctx, ps)) })
		single = b.table.of(func() { b.must(b.Park(b.ctx, []parking.Parked{alone})) })
		if all.writeUnits > 100 {
			b.t.Errorf("50 deliveries of one activity cost %+v", all)
		}
		if single.writeUnits > 700 {
			b.t.Errorf("a delivery of 800 KiB costs %+v", single)
		}
		for _, p := range append(b.lot(key), alone) {
			want := ps[0].Activity.Body
			if p.Activity.ID == alone.Activity.ID {
				want = alone.Activity.Body
			}
			if p.Activity.Body != want {
				b.t.Errorf("the body of %s came back as %d bytes", p.Activity.ID, len(p.Activity.Body))
			}
		}
	}},
	{"ADeliveryStaysUntilItHasItsEnd", func(b *bed) {
		p := b.parked(b.newLot(), b.newID(), 0)
		b.must(b.Park(b.ctx, []parking.Parked{p}))
		b.advance(p.GiveUp.Add(7 * 24 * time.Hour).Sub(b.Now()))
		b.same([]parking.Parked{p}, b.lot(p.Key))
		b.advance(5 * 365 * 24 * time.Hour)
		b.same([]parking.Parked{p}, b.lot(p.Key))
		taken, err := b.IsParked(b.ctx, []parking.ID{p.ID()})
		b.must(err)
		b.same(map[parking.ID]bool{p.ID(): true}, taken)
	}},
}}

func (b *bed) newLot() string { return "host:" + strings.ToLower(string(b.newID())) + ".example" }

func (b *bed) parked(key string, id activity.ID, position int) parking.Parked {
	return parking.Parked{
		Key:      key,
		Activity: activity.Activity{ID: id, Protocol: activity.ActivityPub, Body: `{"type":"Note"}`, Options: activity.Options{KeyID: "https://a.example/users/b#main-key"}, CreatedAt: b.Now()},
		Delivery: message.Delivery{Chunk: 2, Position: position, Targets: inboxes(1, false), Generation: 1},
		Since:    b.Now(), GiveUp: b.in(7 * 24 * time.Hour),
	}
}

func (b *bed) ordered(key, group string, sequence int) parking.Parked {
	p := b.parked(key, b.newID(), 0)
	p.Group, p.Sequence = group, fmt.Sprintf("%020d", sequence)
	return p
}

// lot returns all that is parked under key, shard by shard.
func (b *bed) lot(key string) []parking.Parked {
	b.t.Helper()
	var all []parking.Parked
	for shard := range parking.Shards {
		ps, _, err := b.ParkedUnder(b.ctx, key, shard, "", 1000)
		b.must(err)
		all = append(all, ps...)
	}
	return all
}

// byGroup puts the ordered ones first, whatever shards they are in.
func byGroup(ps []parking.Parked) []parking.Parked {
	slices.SortStableFunc(ps, func(x, y parking.Parked) int { return strings.Compare(y.Group, x.Group) })
	return ps
}
