package storetest

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
)

var graves = group{"dead letters", []testCase{
	{"ALetterIsReadAsItWasBuried", func(b *bed) {
		l := b.letter(b.newID(), 3)
		l.Activity.Body = "{\"content\":\"<p>naïve & \\u2028 ☃</p>\"}\n"
		l.Last.LastError, l.Last.Response, l.Last.LastStatus, l.Last.Attempts = "503", "<busy>", 503, 5
		b.must(b.Bury(b.ctx, []deadletter.Letter{l}))
		b.must(b.Bury(b.ctx, []deadletter.Letter{l}))
		b.same([]deadletter.Letter{l}, b.buried(deadletter.Filter{Activity: l.Activity.ID}))
		b.same([]deadletter.Letter{l}, b.buried(deadletter.Filter{Name: l.Name()}))
	}},
	{"AnExhumedLetterIsGone", func(b *bed) {
		l, other := b.letter(b.newID(), 3), b.letter(b.newID(), 3)
		b.must(b.Bury(b.ctx, []deadletter.Letter{l, other}))
		b.must(b.Exhume(b.ctx, []deadletter.Name{l.Name()}))
		b.must(b.Exhume(b.ctx, []deadletter.Name{l.Name()}))
		b.same([]deadletter.Letter(nil), b.buried(deadletter.Filter{Name: l.Name()}))
		b.same([]deadletter.Letter{other}, b.buried(deadletter.Filter{Name: other.Name()}))
	}},
	{"LettersAreSelected", func(b *bed) {
		host := "h" + string(b.newID()) + ".example"
		b.advance(time.Minute)
		begin, id := b.Now(), b.newID()
		var all []deadletter.Letter
		for day := range 3 {
			for p := range 2 {
				l := b.letter(id, p)
				if p == 1 {
					l.Last.Target.Inbox = "https://" + host + "/inbox"
					l.Delivery.Targets = []activity.Target{l.Last.Target}
				}
				l.Last.Chunk, l.Delivery.Chunk = day, day
				all = append(all, l)
			}
			other := b.letter(b.newID(), 0)
			b.must(b.Bury(b.ctx, append(all[2*day:2*day+2:2*day+2], other)))
			b.advance(24 * time.Hour)
		}
		ofActivity := deadletter.Filter{Activity: id}
		b.same(all, b.buried(ofActivity))
		ofActivity.Since = all[2].Died
		b.same(all[2:], b.buried(ofActivity))
		ofActivity.Since = all[2].Died.Add(time.Second)
		b.same(all[4:], b.buried(ofActivity))
		b.same([]deadletter.Letter{all[1], all[3], all[5]}, b.buried(deadletter.Filter{Host: all[1].Host(), Since: begin}))
		b.same([]deadletter.Letter(nil), b.buried(deadletter.Filter{Host: "nobody.example", Since: begin}))
	}},
	{"AListIsPaged", func(b *bed) {
		id := b.newID()
		var ls []deadletter.Letter
		for p := range 25 {
			ls = append(ls, b.letter(id, p))
		}
		b.must(b.Bury(b.ctx, ls))
		for _, limit := range []int{1, 7, 25, 100} {
			var got []deadletter.Letter
			for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
				page, next, err := b.Letters(b.ctx, deadletter.Filter{Activity: id}, cursor, limit)
				b.must(err)
				if len(page) > limit {
					b.t.Errorf("a page of %d, at most %d", len(page), limit)
				}
				got, cursor = append(got, page...), next
			}
			b.same(ls, got)
		}
		_, _, err := b.Letters(b.ctx, deadletter.Filter{}, "no cursor", 10)
		if !errors.Is(err, deadletter.ErrBadCursor) {
			b.t.Errorf("a bad cursor: %v", err)
		}
	}},
	{"ALetterIsForgotten", func(b *bed) {
		l := b.letter(b.newID(), 0)
		b.must(b.Bury(b.ctx, []deadletter.Letter{l}))
		b.advance(l.Forget.Sub(b.Now()))
		b.same([]deadletter.Letter(nil), b.buried(deadletter.Filter{Name: l.Name()}))
	}},
	{"ALargeBodyIsBuriedOnceForAll", func(b *bed) {
		id := b.newID()
		var ls []deadletter.Letter
		for p := range 50 {
			l := b.letter(id, p)
			l.Activity.Body = noise(40 << 10)
			ls = append(ls, l)
		}
		c := b.table.of(func() { b.must(b.Bury(b.ctx, ls)) })
		if c.writeUnits > 100 {
			b.t.Errorf("50 letters of one activity cost %+v", c)
		}
		b.same(ls, b.buried(deadletter.Filter{Activity: id}))
	}},
}}

func (b *bed) letter(id activity.ID, position int) deadletter.Letter {
	t := inboxes(50, false)[position]
	return deadletter.Letter{
		Activity: activity.Activity{ID: id, Protocol: activity.ActivityPub, Body: `{"type":"Note"}`, CreatedAt: b.Now()},
		Delivery: message.Delivery{Chunk: 2, Position: position, Targets: []activity.Target{t}, Generation: 4},
		Last: ledger.Recipient{
			Chunk: 2, Position: position, Target: t, State: activity.Dead, Attempts: 1, Generation: 3, UpdatedAt: b.Now(),
		},
		Reason: "exhausted", Died: b.Now(), Forget: b.in(30 * 24 * time.Hour),
	}
}

// buried returns all letters that f selects, in order of death and place.
func (b *bed) buried(f deadletter.Filter) []deadletter.Letter {
	b.t.Helper()
	var all []deadletter.Letter
	for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
		ls, next, err := b.Letters(b.ctx, f, cursor, 1000)
		b.must(err)
		all, cursor = append(all, ls...), next
	}
	slices.SortStableFunc(all, func(x, y deadletter.Letter) int {
		return cmp.Or(x.Died.Compare(y.Died), cmp.Compare(x.Last.Chunk, y.Last.Chunk), cmp.Compare(x.Last.Position, y.Last.Position))
	})
	return all
}
