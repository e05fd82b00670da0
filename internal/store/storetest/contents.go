package storetest

import (
	"errors"
	"fmt"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
	"fedpost/internal/servers/parking"
)

// contents are activities that are kept because a recipient has refused them.
var contents = group{"contents", []testCase{
	{"AnActivityIsKeptByteForByteUntilItsTime", func(b *bed) {
		a := b.content("{\"content\":\"<p>naïve & \\u2028 ☃</p>\"}\n")
		if _, err := b.Content(b.ctx, a.ID); !errors.Is(err, ledger.ErrNoContent) {
			b.t.Errorf("before: %v", err)
		}
		for range 2 {
			b.must(b.KeepContent(b.ctx, a, b.in(time.Hour)))
		}
		b.sameContent(a)
		b.advance(time.Hour)
		if _, err := b.Content(b.ctx, a.ID); !errors.Is(err, ledger.ErrNoContent) {
			b.t.Errorf("after its time: %v", err)
		}
	}},
	{"AnUsualActivityIsOneWriteUnit", func(b *bed) {
		a := b.content(note(2000))
		b.costs("keep", cost{writeUnits: 1, writes: 1}, func() { b.must(b.KeepContent(b.ctx, a, b.in(time.Hour))) })
	}},
	{"ALargeActivityIsWrittenOnceHoweverManyRefuseIt", func(b *bed) {
		for _, size := range []int{5 << 10, 256 << 10} {
			a := b.content(noise(size))
			b.must(b.KeepContent(b.ctx, a, b.in(time.Hour)))
			b.costs("keep again", cost{readUnits: size >> 10, reads: 2}, func() { b.must(b.KeepContent(b.ctx, a, b.in(time.Hour))) })
			b.sameContent(a)
		}
	}},
	{"ABodyIsStoredOnceForAllThatNeedIt", func(b *bed) {
		a := b.content(noise(40 << 10))
		b.must(b.CreateActivity(b.ctx, ledger.Record{ID: a.ID, Protocol: a.Protocol, CreatedAt: a.CreatedAt, Forget: b.in(time.Hour)}))
		_, err := b.Body(b.ctx, activity.Activity{ID: a.ID, Apart: activity.Apart{Parts: 1}})
		if !errors.Is(err, ledger.ErrNoBody) {
			b.t.Errorf("before: %v", err)
		}
		until := b.in(100 * 24 * time.Hour)
		b.costs("store", cost{readUnits: 1, reads: 1, writeUnits: 41, writes: 1}, func() {
			a.Apart, err = b.KeepBody(b.ctx, a, until)
			b.must(err)
		})
		b.costs("store again", cost{readUnits: 11, reads: 1}, func() {
			again, err := b.KeepBody(b.ctx, a, until)
			b.must(err)
			if again != a.Apart {
				b.t.Errorf("stored again: %+v, before %+v", again, a.Apart)
			}
		})
		key := b.newLot()
		var ps []parking.Parked
		var ls []deadletter.DeadLetter
		for n := range 2 {
			p, l := b.parked(key, a.ID, n), b.deadLetter(a.ID, n)
			p.Activity, l.Activity = a, a
			ps, ls = append(ps, p), append(ls, l)
		}
		for _, p := range ps { // each from a lot of its own would cost the body
			b.costs("park", cost{writeUnits: 1, writes: 1}, func() { b.must(b.Park(b.ctx, []parking.Parked{p})) })
		}
		b.costs("add dead letters", cost{writeUnits: 4, writes: 3}, func() { b.must(b.AddDeadLetters(b.ctx, ls)) })
		b.must(b.KeepContent(b.ctx, a, b.in(time.Hour)))
		b.sameContent(a)
		ps, ls = b.lot(key), b.deadLettersOf(deadletter.Filter{Activity: a.ID})
		if len(ps) != 2 || len(ls) != 2 || ps[0].Activity != a.Light() || ls[0].Activity != a.Light() {
			b.t.Errorf("%d are parked, %d dead: %+v, %+v", len(ps), len(ls), ps[0].Activity.Apart, ls[0].Activity.Apart)
		}
		// What was read of one item goes into another without its body.
		b.must(b.Park(b.ctx, ps))
		b.must(b.AddDeadLetters(b.ctx, ls))
		b.sameBody(a)
		b.must(b.ForgetActivity(b.ctx, a.ID))
		if _, err := b.Body(b.ctx, a); !errors.Is(err, ledger.ErrNoBody) {
			b.t.Errorf("after it was forgotten: %v", err)
		}
	}},
	{"ABodyThatIsStoredOnceIsKeptForAsLongAsTheLastThatNeedsIt", func(b *bed) {
		const day = 24 * time.Hour
		a := b.content(noise(300 << 10)) // in two parts
		var err error
		a.Apart, err = b.KeepBody(b.ctx, a, b.in(10*day))
		b.must(err)
		l := b.deadLetter(a.ID, 0)
		l.Activity, l.Forget = a, b.in(50*day)
		b.must(b.AddDeadLetters(b.ctx, []deadletter.DeadLetter{l}))
		_, err = b.KeepBody(b.ctx, a, b.in(10*day)) // as a message that comes again would
		b.must(err)
		b.must(b.KeepContent(b.ctx, a, b.in(day)))
		b.advance(50*day - time.Second)
		b.same(1, len(b.deadLettersOf(deadletter.Filter{Activity: a.ID})))
		b.sameBody(a)
		for n := range a.Apart.Parts {
			items, err := b.table.Get(b.ctx, table.Key{PK: "A#" + string(a.ID), SK: fmt.Sprintf("BODY#%04d", n)})
			b.must(err)
			for _, it := range items {
				if it.Expires.Before(b.Now().Add(30 * day)) {
					b.t.Errorf("part %d goes at %s, it is %s", n, it.Expires, b.Now())
				}
			}
		}
	}},
	{"ABodyThatIsStoredOnceOutlastsADeadLetterThatIsParkedAgain", func(b *bed) {
		// A revived delivery may wait for 90 days more, and nobody has read its body for that.
		const day = 24 * time.Hour
		a := b.content(noise(20 << 10))
		var err error
		a.Apart, err = b.KeepBody(b.ctx, a, b.in(day))
		b.must(err)
		key := b.newLot()
		var ps []parking.Parked
		for n := range 2 {
			p := b.parked(key, a.ID, n)
			p.Activity, p.GiveUp = a.Light(), b.in(90*day)
			ps = append(ps, p)
		}
		b.must(b.Park(b.ctx, ps))
		read := b.lot(key)
		b.costs("park one of them again", cost{writeUnits: 1, writes: 1}, func() { b.must(b.Park(b.ctx, read[:1])) })
		items, err := b.table.Get(b.ctx, table.Key{PK: "A#" + string(a.ID), SK: "BODY#0000"})
		b.must(err)
		for _, it := range items {
			if it.Expires.Before(b.in(120 * day)) {
				b.t.Errorf("the body goes at %s, and is needed until %s", it.Expires, ps[0].GiveUp)
			}
		}
		b.sameBody(a)
		// A body that is gone cannot be kept, and its deliveries are given up.
		b.must(b.CreateActivity(b.ctx, ledger.Record{ID: a.ID, Protocol: a.Protocol, CreatedAt: a.CreatedAt, Forget: b.in(day)}))
		b.must(b.ForgetActivity(b.ctx, a.ID))
		ps[0].GiveUp = b.in(100 * day)
		b.must(b.Park(b.ctx, ps[:1]))
	}},
}}

func (b *bed) sameBody(want activity.Activity) {
	b.t.Helper()
	got, err := b.Body(b.ctx, want.Light())
	b.must(err)
	if got != want.Body {
		b.t.Errorf("a body of %d bytes came back as %d", len(want.Body), len(got))
	}
}

func (b *bed) content(body string) activity.Activity {
	return activity.Activity{
		ID: b.newID(), Protocol: activity.ActivityPub, Type: "Create", Body: body, CreatedAt: b.Now(),
		Options: activity.Options{KeyID: "https://social.example.net/users/m.ortega#main-key", Priority: activity.Normal},
	}
}

func (b *bed) sameContent(want activity.Activity) {
	b.t.Helper()
	got, err := b.Content(b.ctx, want.ID)
	b.must(err)
	if got != want {
		b.t.Errorf("kept %+v, want %+v", got, want)
	}
}
