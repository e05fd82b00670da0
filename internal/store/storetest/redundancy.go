package storetest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/deliver/coalesce"
	"fedpost/internal/servers/ratelimit"
)

var notes = group{"redundancy and rates", []testCase{
	{"WhatWasAcceptedLaterIsFoundByInbox", func(b *bed) {
		s := b.subject()
		one, two, three := b.accepted("update"), b.accepted("delete"), b.accepted("create")
		two.At, three.At, three.CoalesceCreate = b.in(time.Second), b.in(time.Second+time.Millisecond), true
		forget := b.in(time.Hour)
		b.must(b.PutAccepted(b.ctx, s, one, []string{"a", "b"}, forget))
		b.must(b.PutAccepted(b.ctx, s, three, []string{"b", "c"}, forget))
		b.must(b.PutAccepted(b.ctx, s, two, []string{"b", "d"}, forget))
		b.must(b.PutAccepted(b.ctx, s, two, []string{"b", "d"}, forget))
		other := s
		other.Target = "elsewhere"
		b.must(b.PutAccepted(b.ctx, other, two, []string{"a", "b", "c"}, forget))
		look := func(after time.Time) map[string][]coalesce.Accepted {
			b.t.Helper()
			newer, err := b.NewerAccepted(b.ctx, s, after, []string{"a", "b", "c", "e"})
			b.must(err)
			return newer
		}
		b.same(map[string][]coalesce.Accepted{"a": {one}, "b": {one, two, three}, "c": {three}}, look(b.in(-time.Second)))
		b.same(map[string][]coalesce.Accepted{"b": {two, three}, "c": {three}}, look(one.At))
		b.same(map[string][]coalesce.Accepted{"b": {three}, "c": {three}}, look(two.At))
		b.same(map[string][]coalesce.Accepted{}, look(three.At))
		b.advance(time.Hour)
		b.same(map[string][]coalesce.Accepted{}, look(one.At.Add(-time.Second)))
	}},
	{"WhatIsDeliveredToNobodyElseIsKnown", func(b *bed) {
		waits, cancelled, lost, forgotten := b.created(1), b.created(1), b.created(1), b.created(1)
		b.must(b.CancelActivity(b.ctx, cancelled.ID))
		_, err := b.LoseActivity(b.ctx, lost.ID, "payload")
		b.must(err)
		b.must(b.ForgetActivity(b.ctx, forgotten.ID))
		got, err := b.Cancelled(b.ctx, []activity.ID{waits.ID, cancelled.ID, lost.ID, forgotten.ID, b.newID()})
		b.must(err)
		b.same(map[activity.ID]bool{waits.ID: false, cancelled.ID: true, lost.ID: true, forgotten.ID: true}, got)
	}},
	{"AHundredThousandInboxesAreRecorded", func(b *bed) {
		s, a := b.subject(), b.accepted("update")
		inboxes := make([]string, 100_000)
		for i := range inboxes {
			inboxes[i] = fmt.Sprintf("https://h%d.example/inbox", i)
		}
		c := b.table.of(func() { b.must(b.PutAccepted(b.ctx, s, a, inboxes, b.in(time.Hour))) })
		if c.writeUnits > len(inboxes)/100 {
			b.t.Errorf("noting %d inboxes costs %+v", len(inboxes), c)
		}
		some := []string{inboxes[0], "https://x.example/inbox", inboxes[99_999], inboxes[54_321], inboxes[10_000]}
		newer, err := b.NewerAccepted(b.ctx, s, b.in(-time.Second), some)
		b.must(err)
		b.same(map[string][]coalesce.Accepted{some[0]: {a}, some[2]: {a}, some[3]: {a}, some[4]: {a}}, newer)
	}},
	{"TheLastDeliveryIsKnownByInbox", func(b *bed) {
		s := b.subject()
		one := coalesce.Delivered{ID: b.newID(), Type: "create", Content: "digest"}
		two := coalesce.Delivered{ID: b.newID(), Type: "update"}
		b.must(b.PutDelivered(b.ctx, s, one, []string{"a", "b", "a"}, b.in(time.Hour)))
		b.must(b.PutDelivered(b.ctx, s, two, []string{"b"}, b.in(2*time.Hour)))
		look := func() map[string]coalesce.Delivered {
			b.t.Helper()
			last, err := b.LastDelivered(b.ctx, s, []string{"a", "b", "c"})
			b.must(err)
			return last
		}
		b.same(map[string]coalesce.Delivered{"a": one, "b": two}, look())
		b.advance(time.Hour)
		b.same(map[string]coalesce.Delivered{"b": two}, look())
	}},
	{"ALimitIsReadAsItWasSaved", func(b *bed) {
		l := ratelimit.Limit{
			Host: "h" + string(b.newID()) + ".example", PerMinute: 30, Burst: 3,
			LearntAt: b.Now(), Until: b.in(time.Hour), Arrival: b.in(time.Second), Forget: b.in(time.Hour),
		}
		saved, err := b.SaveLimit(b.ctx, l)
		b.must(err)
		l.Version = saved.Version
		found, err := b.Limits(b.ctx, l.Host, "nobody.example")
		b.must(err)
		b.same(map[string]ratelimit.Limit{l.Host: l}, found)
		again := l
		again.Version = ""
		if _, err := b.SaveLimit(b.ctx, again); !errors.Is(err, ratelimit.ErrChanged) {
			b.t.Errorf("SaveLimit over another: %v", err)
		}
		b.advance(time.Hour)
		found, err = b.Limits(b.ctx, l.Host)
		b.must(err)
		b.same(map[string]ratelimit.Limit{}, found)
	}},
	{"ARateIsSharedBy32Workers", func(b *bed) {
		r := ratelimit.Limiter{Store: b, Now: b.Now}
		host := "h" + string(b.newID()) + ".example"
		_, err := r.Set(b.ctx, host, 60, 50)
		b.must(err)
		const workers = 32
		granted, errs := make([]int, workers), make([]error, workers)
		var wg sync.WaitGroup
		for i := range workers {
			wg.Go(func() {
				var times []time.Time
				times, errs[i] = r.Reserve(b.ctx, host, 3)
				for _, at := range times {
					if at.IsZero() {
						granted[i]++
					}
				}
			})
		}
		wg.Wait()
		b.must(errors.Join(errs...))
		sum := 0
		for _, n := range granted {
			sum += n
		}
		if sum != 50 {
			b.t.Errorf("%d deliveries granted at once, the burst is 50", sum)
		}
	}},
}}

func (b *bed) subject() coalesce.Subject {
	return coalesce.Subject{Group: coalesce.Membership, Object: "https://a.example/" + string(b.newID()), Target: "https://a.example/list"}
}

func (b *bed) accepted(typ string) coalesce.Accepted {
	return coalesce.Accepted{ID: b.newID(), At: b.Now(), Type: typ}
}
