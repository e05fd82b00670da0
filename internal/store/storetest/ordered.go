package storetest

import (
	"sync"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/ledger"
)

// period is that of the derived ids.
const period = 5 * time.Minute

var ordered = group{"ordered", []testCase{
	{"TheFirstCallCreates", func(b *bed) {
		d := b.derived()
		for _, contested := range []bool{false, true} {
			r := d.at(1)
			got, created := d.create(r, 0, contested)
			if !created || got.ID != r.ID {
				b.t.Errorf("contested %v: %+v, created %v", contested, got, created)
			}
			b.must(b.DropActivity(b.ctx, r.ID))
		}
	}},
	{"ASecondCallInThePeriodIsTheSameActivity", func(b *bed) {
		d := b.derived()
		first := d.at(1)
		d.create(first, 0, false)
		for _, contested := range []bool{false, true} {
			again := d.at(1)
			again.CreatedAt = b.in(time.Minute)
			got, created := d.create(again, 0, contested)
			if created {
				b.t.Error("created twice")
			}
			b.same(first, got)
		}
	}},
	{"ACallInTheNextPeriodIsTheSameActivityWhileThatIsYoung", func(b *bed) {
		d := b.derived()
		first := d.at(1)
		d.create(first, 0, false)
		for _, contested := range []bool{false, true} {
			got, created := d.create(d.at(2), 1, contested)
			if created {
				b.t.Error("created twice")
			}
			b.same(first, got)
		}
	}},
	{"ACallInTheNextPeriodIsANewActivityOnceThatIsOld", func(b *bed) {
		for _, contested := range []bool{false, true} {
			d := b.derived()
			d.create(d.at(1), 0, false)
			b.advance(290*time.Second + time.Millisecond)
			second := d.at(2)
			if got, created := d.create(second, 1, contested); !created || got.ID != second.ID {
				b.t.Errorf("contested %v: %+v, created %v", contested, got, created)
			}
		}
	}},
	{"AnExpiredActivityDoesNotCount", func(b *bed) {
		d := b.derived()
		first := d.at(1)
		d.create(first, 0, false)
		b.advance(first.Forget.Sub(b.Now()))
		if _, created := d.create(d.at(1), 0, false); !created {
			b.t.Error("an expired record stands in the way")
		}
	}},
	{"CallersOnBothSidesOfTheTurnAgree", func(b *bed) {
		for range 5 {
			d := b.derived()
			d.compete(func(i int) (ledger.Record, int, bool) {
				if i%2 == 0 {
					return d.at(1), 0, false // by its clock that period has not begun
				}
				return d.at(2), 1, true
			})
		}
	}},
	{"CallersOfOnePeriodAgree", func(b *bed) {
		d := b.derived()
		d.compete(func(i int) (ledger.Record, int, bool) { return d.at(1), 0, i%2 == 0 })
	}},
	{"ACallerBeforeTheTurnFollowsOneAfterIt", func(b *bed) {
		d := b.derived()
		second := d.at(2)
		d.create(second, 1, true)
		got, created := d.create(d.at(1), 0, false)
		if created {
			b.t.Error("created twice")
		}
		b.same(second, got)
		b.same(second, b.record(d.id(1)))
		if third, created := d.create(d.at(3), 2, true); created {
			b.t.Errorf("the next period made %+v", third)
		}
	}},
	{"WhatWasSentWithoutARecordIsRecordedInPlaceOfAPointer", func(b *bed) {
		d := b.derived()
		second := d.at(2)
		d.create(second, 1, true)
		first := d.at(1)
		for range 2 { // a write may be repeated
			b.must(b.CreateActivity(b.ctx, first))
			b.same(first, b.record(first.ID))
		}
		b.same(second, b.record(second.ID))
		if got, created := d.create(d.at(1), 0, false); created || got.ID != first.ID {
			b.t.Errorf("then a call before the turn: %+v, created %v", got, created)
		}
	}},
	{"ADroppedActivityLeavesNothingInTheWay", func(b *bed) {
		d := b.derived()
		second := d.at(2)
		d.create(second, 1, true)
		b.must(b.DropActivity(b.ctx, second.ID))
		b.noActivity(d.id(1))
		if _, created := d.create(d.at(2), 1, true); !created {
			b.t.Error("after the turn, the dropped activity stands in the way")
		}
		b.must(b.DropActivity(b.ctx, second.ID))
		if _, created := d.create(d.at(1), 0, false); !created {
			b.t.Error("before the turn, the dropped activity stands in the way")
		}
		if got, created := d.create(d.at(2), 1, true); created || got.ID != d.id(1) {
			b.t.Errorf("then after the turn: %+v, created %v", got, created)
		}
	}},
}}

// derivation makes activities of one deduplication key.
type derivation struct {
	*bed
	key   string
	start time.Time // of period 0
}

func (b *bed) derived() *derivation {
	return &derivation{b, string(b.newID()), b.Now().Truncate(period).Add(-2 * period)}
}

func (d *derivation) id(n int) activity.ID {
	return activity.DerivedID(d.start.Add(time.Duration(n)*period), d.key)
}

// at is the request as made in period n.
func (d *derivation) at(n int) ledger.Record {
	r := d.newRecord(1)
	r.ID, r.Fingerprint = d.id(n), d.key
	return r
}

func (d *derivation) create(r ledger.Record, prev int, contested bool) (ledger.Record, bool) {
	d.t.Helper()
	got, created, err := d.CreateOrdered(d.ctx, r, d.id(prev), d.Now().Add(-290*time.Second), contested)
	d.must(err)
	return got, created
}

// compete has 64 callers make their calls at once: one id comes out, and one
// caller learns that it is new.
func (d *derivation) compete(call func(i int) (r ledger.Record, prev int, contested bool)) {
	d.t.Helper()
	const callers = 64
	ids, created := make([]activity.ID, callers), make([]bool, callers)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range callers {
		wg.Go(func() {
			r, prev, contested := call(i)
			<-start
			var got ledger.Record
			got, created[i], errs[i] = d.CreateOrdered(d.ctx, r, d.id(prev), d.Now().Add(-290*time.Second), contested)
			ids[i] = got.ID
		})
	}
	close(start)
	wg.Wait()
	winners := 0
	for i := range callers {
		d.must(errs[i])
		if ids[i] != ids[0] {
			d.t.Errorf("caller %d has %s, caller 0 has %s", i, ids[i], ids[0])
		}
		if created[i] {
			winners++
		}
	}
	if winners != 1 {
		d.t.Errorf("%d callers were told that the activity is new", winners)
	}
}
