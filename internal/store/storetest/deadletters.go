package storetest

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
)

var deadLetters = group{"dead letters", []testCase{
	{"ADeadLetterIsReadAsItWasWritten", func(b *bed) {
		l := b.deadLetter(b.newID(), 3)
		l.Activity.Body = "{\"content\":\"<p>naïve & \\u2028 ☃</p>\"}\n"
		l.Last.LastError, l.Last.Response, l.Last.LastStatus, l.Last.Attempts = "503", "<busy>", 503, 5
		b.must(b.AddDeadLetters(b.ctx, []deadletter.DeadLetter{l}))
		b.must(b.AddDeadLetters(b.ctx, []deadletter.DeadLetter{l}))
		b.same([]deadletter.DeadLetter{l}, b.deadLettersOf(deadletter.Filter{Activity: l.Activity.ID}))
		b.same([]deadletter.DeadLetter{l}, b.deadLettersOf(deadletter.Filter{Name: l.Name()}))
	}},
	{"NamedLettersAreReadAtOnce", func(b *bed) {
		l, other, missing := b.deadLetter(b.newID(), 3), b.deadLetter(b.newID(), 4), b.deadLetter(b.newID(), 5)
		b.must(b.AddDeadLetters(b.ctx, []deadletter.DeadLetter{l, other}))
		b.costs("named", cost{readUnits: 3, reads: 1}, func() {
			ls, err := b.Named(b.ctx, []deadletter.Name{other.Name(), missing.Name(), l.Name()})
			b.must(err)
			slices.SortFunc(ls, func(x, y deadletter.DeadLetter) int { return cmp.Compare(x.Last.Position, y.Last.Position) })
			b.same([]deadletter.DeadLetter{l, other}, ls)
		})
	}},
	{"AnExhumedLetterIsGone", func(b *bed) {
		l, other := b.deadLetter(b.newID(), 3), b.deadLetter(b.newID(), 3)
		b.must(b.AddDeadLetters(b.ctx, []deadletter.DeadLetter{l, other}))
		b.must(b.RemoveDeadLetters(b.ctx, []deadletter.DeadLetter{l}))
		b.must(b.RemoveDeadLetters(b.ctx, []deadletter.DeadLetter{l}))
		b.same([]deadletter.DeadLetter(nil), b.deadLettersOf(deadletter.Filter{Name: l.Name()}))
		b.same([]deadletter.DeadLetter{other}, b.deadLettersOf(deadletter.Filter{Name: other.Name()}))
	}},
	{"LettersAreSelected", func(b *bed) {
		host := "h" + string(b.newID()) + ".example"
		b.advance(time.Minute)
		begin, id := b.Now(), b.newID()
		var all []deadletter.DeadLetter
		for day := range 3 {
			for p := range 2 {
				l := b.deadLetter(id, p)
				if p == 1 {
					l.Last.Target.Inbox = "https://" + host + "/inbox"
					l.Delivery.Targets = []activity.Target{l.Last.Target}
				}
				l.Last.Chunk, l.Delivery.Chunk = day, day
				all = append(all, l)
			}
			other := b.deadLetter(b.newID(), 0)
			b.must(b.AddDeadLetters(b.ctx, append(all[2*day:2*day+2:2*day+2], other)))
			b.advance(24 * time.Hour)
		}
		ofActivity := deadletter.Filter{Activity: id}
		b.same(all, b.deadLettersOf(ofActivity))
		ofActivity.Since = all[2].Died
		b.same(all[2:], b.deadLettersOf(ofActivity))
		ofActivity.Since = all[2].Died.Add(time.Second)
		b.same(all[4:], b.deadLettersOf(ofActivity))
		b.same([]deadletter.DeadLetter{all[1], all[3], all[5]}, b.deadLettersOf(deadletter.Filter{Host: all[1].Host(), Since: begin}))
		b.same([]deadletter.DeadLetter(nil), b.deadLettersOf(deadletter.Filter{Host: "nobody.example", Since: begin}))
	}},
	{"AListIsPaged", func(b *bed) {
		id := b.newID()
		var ls []deadletter.DeadLetter
		for p := range 25 {
			ls = append(ls, b.deadLetter(id, p))
		}
		b.must(b.AddDeadLetters(b.ctx, ls))
		for _, limit := range []int{1, 7, 25, 100} {
			var got []deadletter.DeadLetter
			for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
				page, next, err := b.DeadLetters(b.ctx, deadletter.Filter{Activity: id}, cursor, limit)
				b.must(err)
				if len(page) > limit {
					b.t.Errorf("a page of %d, at most %d", len(page), limit)
				}
				got, cursor = append(got, page...), next
			}
			b.same(ls, got)
		}
		for _, bad := range []string{"no cursor", "host.", "host.0.", "host.0.X.", "host.0.X.X#2026-11-22", "2026-11-22", "2026-11-22.x.y", "2026-11-22.9.y", "2026-11-22.-1.y", ".0.y", "2026-11-22.0." + strings.Repeat("y", 300)} {
			if _, _, err := b.DeadLetters(b.ctx, deadletter.Filter{}, bad, 10); !errors.Is(err, deadletter.ErrBadCursor) {
				b.t.Errorf("the bad cursor %q: %v", bad, err)
			}
		}
	}},
	{"WhatIsLeftDeadIsKeptAndRevivableNoMore", func(b *bed) {
		host := "l" + strings.ToLower(string(b.newID())) + ".example"
		var ls []deadletter.DeadLetter
		for n := range 4 {
			l := b.deadLetter(b.newID(), n)
			l.Last.Target.Inbox = "https://" + host + "/inbox"
			l.Delivery.Targets = []activity.Target{l.Last.Target}
			l.Delivery.Revive = b.in(20 * 24 * time.Hour)
			if n%2 == 1 {
				l.Activity.OrderingKey = "key"
			}
			ls = append(ls, l)
		}
		revivable := func(ordered bool) int {
			some, _, err := b.Revivable(b.ctx, host, ordered, b.Now(), "", 100)
			b.must(err)
			return len(some)
		}
		b.must(b.AddDeadLetters(b.ctx, ls))
		for range 2 { // a repetition is harmless
			b.must(b.LeaveDead(b.ctx, ls[:2]))
			if u, o := revivable(false), revivable(true); u != 1 || o != 1 {
				b.t.Errorf("%d and %d ordered ones can be revived, want one each", u, o)
			}
		}
		if all := b.deadLettersOf(deadletter.Filter{Host: host}); len(all) != 4 {
			b.t.Errorf("%d of 4 are listed", len(all))
		}
	}},
	{"LettersOfAHostAreFoundByItsIndex", func(b *bed) {
		host := strings.ToLower("i" + string(b.newID()) + ".example:8443")
		b.advance(time.Minute)
		begin := b.Now()
		var all, ordered, dropped []deadletter.DeadLetter
		for day := range 3 {
			for p := range 20 {
				l := b.deadLetterAt(host, p)
				switch p % 3 {
				case 0:
					l.Delivery.Revive = b.in(30 * 24 * time.Hour)
				case 1:
					l.Delivery.Revive, l.Activity.OrderingKey = b.in(30*24*time.Hour), "thread"
				}
				if l.Activity.Type = "Create"; day == 1 {
					l.Activity.Type = "Update"
				}
				all = append(all, l)
				if p%3 == 1 {
					ordered = append(ordered, l)
				}
			}
			// Others of the same time are not read.
			others := []deadletter.DeadLetter{b.deadLetter(b.newID(), 0), b.deadLetterAt(host+"0", 1)}
			b.must(b.AddDeadLetters(b.ctx, append(others, all[20*day:]...)))
			b.advance(24 * time.Hour)
		}
		at := deadletter.Filter{Host: host}
		b.sameLetters(all, b.deadLettersOf(at))
		for _, limit := range []int{1, 7, 60, 1000} {
			b.sameLetters(all, b.pages(limit, func(cursor string, limit int) ([]deadletter.DeadLetter, string, error) {
				return b.DeadLetters(b.ctx, at, cursor, limit)
			}))
			b.sameLetters(ordered, b.pages(limit, func(cursor string, limit int) ([]deadletter.DeadLetter, string, error) {
				return b.Revivable(b.ctx, host, true, begin, cursor, limit)
			}))
		}
		late := b.pages(9, func(cursor string, limit int) ([]deadletter.DeadLetter, string, error) {
			return b.Revivable(b.ctx, host, false, all[20].Died, cursor, limit)
		})
		if len(late) != 14 || slices.ContainsFunc(late, func(l deadletter.DeadLetter) bool {
			return l.Died.Before(all[20].Died) || l.Activity.Ordered() || l.Delivery.Revive.IsZero()
		}) {
			b.t.Errorf("%d are revived that died on the second day or later: %+v", len(late), late)
		}
		at.Type = "Update"
		b.sameLetters(all[20:40], b.deadLettersOf(at))
		at.Type, at.Since = "", all[40].Died
		b.sameLetters(all[40:], b.deadLettersOf(at))
		b.sameLetters(nil, b.deadLettersOf(deadletter.Filter{Host: "nobody." + host}))

		dropped, all = all[:30], all[30:]
		b.must(b.RemoveDeadLetters(b.ctx, dropped))
		b.sameLetters(all, b.deadLettersOf(deadletter.Filter{Host: host}))
		if some, next, err := b.Revivable(b.ctx, host, true, begin, "", 100); err != nil || next != "" || len(some) != 11 {
			b.t.Errorf("%d ordered ones are left, next %q, %v", len(some), next, err)
		}
		for _, cursor := range []string{"x", "host.", "host.0.U", "host.9.U.", "host.0.Y.", "host.0.U.X#", "host.-1.U.", "host.0.U.U#" + strings.Repeat("1", 300)} {
			if _, _, err := b.DeadLetters(b.ctx, deadletter.Filter{Host: host}, cursor, 10); !errors.Is(err, deadletter.ErrBadCursor) {
				b.t.Errorf("the cursor %q: %v", cursor, err)
			}
		}
	}},
	{"AHostIsFoundWithoutReadingOthers", func(b *bed) {
		host := strings.ToLower("j" + string(b.newID()) + ".example")
		l := b.deadLetterAt(host, 0)
		var others []deadletter.DeadLetter
		for range 200 {
			others = append(others, b.deadLetter(b.newID(), 0))
		}
		b.must(b.AddDeadLetters(b.ctx, others))
		b.must(b.AddDeadLetters(b.ctx, []deadletter.DeadLetter{l}))
		c := b.table.of(func() { b.sameLetters([]deadletter.DeadLetter{l}, b.deadLettersOf(deadletter.Filter{Host: host})) })
		if c.reads > 13 || c.readUnits > 14 {
			b.t.Errorf("one dead letter of a host among 201 took %+v", c)
		}
		b.costs("add a dead letter", cost{writeUnits: 2, writes: 2}, func() { b.must(b.AddDeadLetters(b.ctx, []deadletter.DeadLetter{l})) })
		b.costs("remove it", cost{writeUnits: 2, writes: 1}, func() { b.must(b.RemoveDeadLetters(b.ctx, []deadletter.DeadLetter{l})) })
	}},
	{"ALetterIsForgotten", func(b *bed) {
		l := b.deadLetter(b.newID(), 0)
		b.must(b.AddDeadLetters(b.ctx, []deadletter.DeadLetter{l}))
		b.advance(l.Forget.Sub(b.Now()))
		b.same([]deadletter.DeadLetter(nil), b.deadLettersOf(deadletter.Filter{Name: l.Name()}))
	}},
	{"DeadLettersShareALargeBody", func(b *bed) {
		id := b.newID()
		var ls []deadletter.DeadLetter
		for p := range 50 {
			l := b.deadLetter(id, p)
			l.Activity.Body = noise(40 << 10)
			ls = append(ls, l)
		}
		c := b.table.of(func() { b.must(b.AddDeadLetters(b.ctx, ls)) })
		if c.writeUnits > 150 { // two each, and the body
			b.t.Errorf("50 dead letters of one activity cost %+v", c)
		}
		b.same(ls, b.deadLettersOf(deadletter.Filter{Activity: id}))
	}},
}}

func (b *bed) deadLetter(id activity.ID, position int) deadletter.DeadLetter {
	t := inboxes(50, false)[position]
	return deadletter.DeadLetter{
		Activity: activity.Activity{ID: id, Protocol: activity.ActivityPub, Body: `{"type":"Note"}`, CreatedAt: b.Now()},
		Delivery: message.Delivery{Chunk: 2, Position: position, Targets: []activity.Target{t}, Generation: 4},
		Last: ledger.Recipient{
			Chunk: 2, Position: position, Target: t, State: activity.Dead, Attempts: 1, Generation: 3, UpdatedAt: b.Now(),
		},
		Reason: "exhausted", Died: b.Now(), Forget: b.in(30 * 24 * time.Hour),
	}
}

// deadLetterAt is a dead letter of an activity of its own, for a host.
func (b *bed) deadLetterAt(host string, position int) deadletter.DeadLetter {
	l := b.deadLetter(b.newID(), position)
	l.Last.Target.Inbox = "https://" + host + "/inbox"
	l.Delivery.Targets = []activity.Target{l.Last.Target}
	return l
}

// sameLetters compares dead letters, in whatever order.
func (b *bed) sameLetters(want, got []deadletter.DeadLetter) {
	b.t.Helper()
	sorted := func(ls []deadletter.DeadLetter) []deadletter.DeadLetter {
		return slices.SortedFunc(slices.Values(ls), func(x, y deadletter.DeadLetter) int {
			return cmp.Compare(x.Name().String(), y.Name().String())
		})
	}
	b.same(sorted(want), sorted(got))
}

// pages reads a list to its end.
func (b *bed) pages(limit int, page func(cursor string, limit int) ([]deadletter.DeadLetter, string, error)) (all []deadletter.DeadLetter) {
	b.t.Helper()
	for cursor, n := "", 0; n == 0 || cursor != ""; n++ {
		ls, next, err := page(cursor, limit)
		b.must(err)
		if len(ls) > limit {
			b.t.Errorf("a page of %d, at most %d", len(ls), limit)
		}
		all, cursor = append(all, ls...), next
	}
	return all
}

// deadLettersOf returns all dead letters that f selects, in order of death and place.
func (b *bed) deadLettersOf(f deadletter.Filter) []deadletter.DeadLetter {
	b.t.Helper()
	var all []deadletter.DeadLetter
	for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
		ls, next, err := b.DeadLetters(b.ctx, f, cursor, 1000)
		b.must(err)
		all, cursor = append(all, ls...), next
	}
	slices.SortStableFunc(all, func(x, y deadletter.DeadLetter) int {
		return cmp.Or(x.Died.Compare(y.Died), cmp.Compare(x.Last.Chunk, y.Last.Chunk), cmp.Compare(x.Last.Position, y.Last.Position))
	})
	return all
}
