package storetest

import (
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/ledger"
	"fedpost/internal/servers/parking"
)

var views = group{"views", []testCase{
	{"AGroupsParkedDeliveriesAreFound", func(b *bed) {
		key := b.newLot()
		one, two := b.ordered(key, "group", 7), b.ordered(key, "group", 12)
		one.Due = b.in(time.Hour)
		b.must(b.Park(b.ctx, []parking.Parked{two, one, b.ordered(key, "another", 1), b.parked(key, b.newID(), 0)}))
		got, err := b.ParkedInGroup(b.ctx, key, "group")
		b.must(err)
		b.same(map[parking.ID]time.Time{one.ID(): one.Due, two.ID(): {}}, got)
	}},
	{"AnActivityIsSeenThroughItsStages", func(b *bed) {
		w := b.work(4)
		b.counted(w.id, map[activity.State]int{activity.Queued: 4}, ledger.StatusQueued)
		c := w.claim(w.chunk(), "chunk")
		b.counted(w.id, map[activity.State]int{activity.Queued: 4}, ledger.StatusDelivering)
		w.record(&c, w.outcome(0, activity.Delivered), w.outcomeOf(1, activity.Retrying, 1), w.outcomeOf(2, activity.Parked, 1), w.outcome(3, activity.Failed))
		b.counted(w.id, map[activity.State]int{activity.Delivered: 1, activity.Retrying: 1, activity.Parked: 1, activity.Failed: 1}, ledger.StatusDelivering)
		for p, s := range map[int]activity.State{1: activity.Delivered, 2: activity.Dead} {
			one := w.claim(w.one(p, 1), "position")
			w.record(&one, w.outcomeOf(p, s, 1))
		}
		b.counted(w.id, map[activity.State]int{activity.Delivered: 2, activity.Dead: 1, activity.Failed: 1}, ledger.StatusDone)
		b.must(b.CancelActivity(b.ctx, w.id))
		b.counted(w.id, map[activity.State]int{activity.Delivered: 2, activity.Dead: 1, activity.Failed: 1}, ledger.StatusDone)
	}},
	{"AParkedRecipientsLotIsKept", func(b *bed) {
		w := b.work(2)
		c := w.claim(w.chunk(), "chunk")
		parked := w.outcomeOf(1, activity.Parked, 1)
		parked.Lot = "inbox#key-0123456789ab"
		w.record(&c, w.outcome(0, activity.Delivered), parked)
		k, err := b.Inspect(b.ctx, w.one(1, 1))
		b.must(err)
		b.same(parked.Lot, k.Recipients[1].Lot)
		one := w.claim(w.one(1, 1), "position")
		parked.Lot = ""
		w.record(&one, parked)
		k, err = b.Inspect(b.ctx, w.one(1, 1))
		b.must(err)
		b.same("", k.Recipients[1].Lot)
	}},
	{"WhatProcessesCountAddsUpDayByDay", func(b *bed) {
		// Days that no other test has.
		day, next := string(b.newID()), string(b.newID())
		forget := b.in(time.Hour)
		b.must(b.PutCounts(b.ctx, day, "one", map[string]int{"delivered": 1}, forget))
		b.costs("a total of a day", cost{writeUnits: 1, writes: 1}, func() {
			b.must(b.PutCounts(b.ctx, day, "one", map[string]int{"delivered": 3, "dead": 1}, forget))
		})
		b.must(b.PutCounts(b.ctx, day, "two", map[string]int{"delivered": 4}, forget))
		b.must(b.PutCounts(b.ctx, next, "two", map[string]int{"delivered": 5}, forget))
		for d, want := range map[string]map[string]int{day: {"delivered": 7, "dead": 1}, next: {"delivered": 5}, string(b.newID()): {}} {
			got, err := b.CountsOf(b.ctx, d)
			b.must(err)
			b.same(want, got)
		}
		b.advance(time.Hour)
		got, err := b.CountsOf(b.ctx, day)
		b.must(err)
		b.same(map[string]int{}, got)
	}},
	{"ManyRecipientsAreCountedAtAReasonableCost", func(b *bed) {
		n := b.pick(10_000, 50_000)
		r := b.newRecord(0)
		r.Recipients, r.Targets = n, n
		b.must(b.CreateActivity(b.ctx, r))
		var chunks [][]activity.Target
		for targets := inboxes(n, false); len(targets) > 0; targets = targets[ledger.ChunkSize:] {
			chunks = append(chunks, targets[:ledger.ChunkSize])
		}
		b.must(b.PlanChunks(b.ctx, r.ID, 0, chunks, r.Forget))
		b.viewed(r.ID, "untouched", b.pick(700, 3000), map[activity.State]int{activity.Queued: n})
		for number := range chunks {
			w := &work{bed: b, id: r.ID, number: number}
			c := w.claim(w.chunk(), "a worker's name of 36 characters....")
			rs := w.deliveries(ledger.ChunkSize)
			rs[7] = w.outcomeOf(7, activity.Retrying, 1)
			w.record(&c, rs...)
		}
		b.viewed(r.ID, "delivered", b.pick(120, 600), map[activity.State]int{activity.Delivered: n / 50 * 49, activity.Retrying: n / 50})
	}},
}}

func (b *bed) counted(id activity.ID, counts map[activity.State]int, status ledger.Status) {
	b.t.Helper()
	v, err := ledger.ViewOf(b.ctx, b, id, "", 10, b.Now())
	b.must(err)
	b.same(counts, v.Counts)
	if v.Status != status {
		b.t.Errorf("status %s, want %s", v.Status, status)
	}
}

// viewed checks the counts of a view, and that it takes at most so many read
// units.
func (b *bed) viewed(id activity.ID, what string, readUnits int, counts map[activity.State]int) {
	b.t.Helper()
	var v ledger.View
	begin := time.Now()
	c := b.table.of(func() {
		var err error
		v, err = ledger.ViewOf(b.ctx, b, id, "", 100, b.Now())
		b.must(err)
	})
	b.t.Logf("%s: %v, %d read units, %d requests", what, time.Since(begin).Round(time.Millisecond), c.readUnits, c.reads)
	b.same(counts, v.Counts)
	if len(v.Recipients) != 100 {
		b.t.Errorf("%d recipients on the first page", len(v.Recipients))
	}
	if c.readUnits > readUnits {
		b.t.Errorf("%s: a view costs %+v", what, c)
	}
}
