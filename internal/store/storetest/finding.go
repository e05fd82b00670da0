package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/ledger"
	"fedpost/internal/servers/parking"
)

// finding is about lists of activities, and of what is parked.
var finding = group{"finding", []testCase{
	{"AnActivityIsFoundByItsOwnID", func(b *bed) {
		l := b.listed("frida")
		b.advance(time.Second)
		twin, other := b.listed("frida"), b.listed("frida")
		twin.ActivityID = l.ActivityID
		b.must(b.ListActivities(b.ctx, []ledger.Listed{l, twin, other}))
		b.must(b.ListActivities(b.ctx, []ledger.Listed{l}))
		b.finds(ledger.Sought{ActivityID: l.ActivityID}, 10, l, twin)
		b.finds(ledger.Sought{ActivityID: l.ActivityID}, 1, l, twin)
		b.finds(ledger.Sought{ActivityID: l.ActivityID, Sender: "https://nobody.example/"}, 10)
		b.finds(ledger.Sought{ActivityID: l.ActivityID + "x"}, 10)
	}},
	{"AnActivityIsFoundByFedpostsID", func(b *bed) {
		l, twin := b.listed("frida"), b.listed("gus") // of the same millisecond
		b.must(b.ListActivities(b.ctx, []ledger.Listed{l, twin}))
		b.finds(ledger.Sought{ID: l.ID}, 10) // without a record
		b.must(b.CreateActivity(b.ctx, ledger.Record{ID: l.ID, CreatedAt: l.CreatedAt, Forget: l.Forget}))
		b.finds(ledger.Sought{ID: l.ID}, 10, l)
		b.finds(ledger.Sought{ID: l.ID, Sender: twin.Sender}, 10)
	}},
	{"AForwardedActivityIsFoundByItsActorAndItsSenderAndListedOnce", func(b *bed) {
		l, own := b.listed("relay"+string(b.newID())), b.listed("gus"+string(b.newID()))
		l.Actor = own.Actor + "#me"
		b.must(b.ListActivities(b.ctx, []ledger.Listed{l}))
		b.advance(time.Second)
		own.CreatedAt = b.Now()
		b.must(b.ListActivities(b.ctx, []ledger.Listed{own}))
		for _, limit := range []int{1, 10} {
			b.finds(ledger.Sought{Sender: l.Sender}, limit, l)
			b.finds(ledger.Sought{Sender: own.Actor}, limit, own, l)
			b.finds(ledger.Sought{ActivityID: l.ActivityID, Sender: own.Actor}, limit, l)
		}
		b.must(b.CreateActivity(b.ctx, ledger.Record{ID: l.ID, CreatedAt: l.CreatedAt, Forget: l.Forget}))
		b.finds(ledger.Sought{ID: l.ID}, 10, l)
		n := 0
		for _, found := range b.found(ledger.Sought{Since: l.CreatedAt}, 100) {
			if found.ID == l.ID {
				n++
			}
		}
		if n != 1 {
			b.t.Errorf("the list of all senders has it %d times, want once", n)
		}
	}},
	{"ActivitiesOfASenderAreFoundTheLastFirstAndSinceATime", func(b *bed) {
		frida, gus := "frida"+string(b.newID()), "gus"+string(b.newID())
		var ls []ledger.Listed
		for range 7 {
			ls = append([]ledger.Listed{b.listed(frida)}, ls...)
			b.must(b.ListActivities(b.ctx, []ledger.Listed{ls[0], b.listed(gus)}))
			b.advance(13 * time.Hour)
		}
		sender := ls[0].Sender
		for _, limit := range []int{1, 3, 100} {
			b.finds(ledger.Sought{Sender: sender}, limit, ls...)
			b.finds(ledger.Sought{Sender: sender, Since: ls[2].CreatedAt}, limit, ls[:3]...)
			b.finds(ledger.Sought{Sender: sender, Since: ls[2].CreatedAt.Add(time.Second)}, limit, ls[:2]...)
		}
		b.advance(ls[6].CreatedAt.Add(ledger.SoughtBack).Add(24 * time.Hour).Sub(b.Now()))
		b.finds(ledger.Sought{Sender: sender}, 100, ls[:5]...) // by default not what is older than 7 days
		b.finds(ledger.Sought{Sender: sender, Since: ls[6].CreatedAt}, 100, ls...)
	}},
	{"ActivitiesOfAllSendersAreFoundTheLastFirst", func(b *bed) {
		var want []activity.ID
		begin := b.Now()
		for n := range 60 {
			l := b.listed(fmt.Sprint("sender", n%25, b.newID()))
			want = append([]activity.ID{l.ID}, want...)
			b.must(b.ListActivities(b.ctx, []ledger.Listed{l}))
			b.advance(47 * time.Minute)
		}
		for _, limit := range []int{1, 7, 1000} {
			var got []activity.ID
			for _, l := range b.found(ledger.Sought{Since: begin}, limit) {
				if slices.Contains(want, l.ID) { // other tests use the same table
					got = append(got, l.ID)
				}
			}
			if !slices.Equal(got, want) {
				b.t.Errorf("pages of %d: found %v, want %v", limit, got, want)
			}
		}
	}},
	{"ASearchGoesOnAfterAnyActivity", func(b *bed) {
		begin := b.Now()
		for n := range 9 {
			b.must(b.ListActivities(b.ctx, []ledger.Listed{b.listed(fmt.Sprint("sender", n%3, b.newID()))}))
			b.advance(11 * time.Hour)
		}
		all := b.found(ledger.Sought{Since: begin}, 100)
		for i, l := range all {
			ls, _, err := b.FindActivities(b.ctx, ledger.Sought{Since: begin}, l.Cursor, 1)
			b.must(err)
			if i < len(all)-1 && (len(ls) != 1 || ls[0].ID != all[i+1].ID) {
				b.t.Errorf("after %s: %+v, want %s", l.ID, ls, all[i+1].ID)
			}
		}
	}},
	{"AListForgets", func(b *bed) {
		l := b.listed("frida" + string(b.newID()))
		b.must(b.ListActivities(b.ctx, []ledger.Listed{l}))
		b.advance(l.Forget.Sub(b.Now()))
		b.finds(ledger.Sought{ActivityID: l.ActivityID}, 10)
		b.finds(ledger.Sought{Sender: l.Sender, Since: l.CreatedAt}, 10)
	}},
	{"ACursorIsOneThatWasGivenOut", func(b *bed) {
		for _, cursor := range []string{"x", "2026-11-21.9/", "1999-01-01.0/", "/"} {
			if _, _, err := b.FindActivities(b.ctx, ledger.Sought{}, cursor, 10); !errors.Is(err, ledger.ErrBadCursor) {
				b.t.Errorf("%q: %v", cursor, err)
			}
		}
	}},
	{"ASearchIsBounded", func(b *bed) {
		s := ledger.Sought{Since: b.Now().Add(-90 * 24 * time.Hour)}
		c := b.table.of(func() {
			_, next, err := b.FindActivities(b.ctx, s, "", 10)
			b.must(err)
			if next == "" {
				b.t.Errorf("a search of %d days takes one call", 60)
			}
		})
		if c.reads > 800 { // 512, and the reads of one list
			b.t.Errorf("costs %+v", c)
		}
	}},
	{"BeingFoundIsTwoWriteUnits", func(b *bed) {
		l := b.listed("m.ortega")
		b.costs("list", cost{writeUnits: 2, writes: 1}, func() { b.must(b.ListActivities(b.ctx, []ledger.Listed{l})) })
	}},
	{"WhatIsParkedIsCounted", func(b *bed) {
		lot := b.newLot()
		var ps []parking.Parked
		for n := range 23 {
			ps = append(ps, b.parked(lot, b.newID(), n))
		}
		b.must(b.Park(b.ctx, ps))
		for most, want := range map[int]int{1: 1, 22: 22, 23: 23, 1000: 23} {
			if n, err := b.CountParked(b.ctx, lot, most); err != nil || n != want {
				b.t.Errorf("up to %d: %d, %v; want %d", most, n, err, want)
			}
		}
		if n, err := b.CountParked(b.ctx, b.newLot(), 10); err != nil || n != 0 {
			b.t.Errorf("an empty lot has %d, %v", n, err)
		}
	}},
}}

func (b *bed) listed(name string) ledger.Listed {
	id := b.newID()
	actor := "https://social.example.net/users/" + name
	return ledger.Listed{
		ID: id, ActivityID: actor + "/statuses/" + string(id) + "/activity", Sender: actor, Actor: actor, Type: "Create",
		KeyID: actor + "#main-key", Object: actor + "/statuses/1", Bytes: 1734, CreatedAt: b.Now(), Forget: b.in(30 * 24 * time.Hour),
	}
}

// found follows the pages of a search.
func (b *bed) found(s ledger.Sought, limit int) (all []ledger.Listed) {
	b.t.Helper()
	for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
		ls, next, err := b.FindActivities(b.ctx, s, cursor, limit)
		b.must(err)
		if len(ls) > limit || pages > 500 {
			b.t.Fatalf("page %d of %d, at most %d", pages, len(ls), limit)
		}
		all, cursor = append(all, ls...), next
	}
	return all
}

func (b *bed) finds(s ledger.Sought, limit int, want ...ledger.Listed) {
	b.t.Helper()
	got := b.found(s, limit)
	if len(got) != len(want) {
		b.t.Errorf("%+v: %d found, want %d", s, len(got), len(want))
		return
	}
	for i := range want {
		want[i].CreatedAt = want[i].CreatedAt.Truncate(time.Millisecond)
		if got[i].ID != want[i].ID || got[i].ActivityID != want[i].ActivityID || got[i].Actor != want[i].Actor || got[i].KeyID != want[i].KeyID ||
			got[i].Type != want[i].Type || got[i].Object != want[i].Object || got[i].Bytes != want[i].Bytes || got[i].Sender != want[i].Sender || !got[i].CreatedAt.Equal(want[i].CreatedAt) {
			b.t.Errorf("found %+v, want %+v", got[i], want[i])
		}
	}
}
