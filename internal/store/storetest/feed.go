package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
	"fedpost/internal/ledger/events"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/store"
)

var feed = group{"feed", []testCase{
	{"AnEndIsAppendedAsItWas", func(b *bed) {
		after := b.feedEnd()
		id, inbox := b.newID(), b.inbox()
		about := events.About{ID: "https://social.example/a/1", Type: "Create", Actor: "https://social.example/u/ä"}
		e := b.end(id, about, inbox, ledger.Recipient{Chunk: 2, Position: 3, State: activity.Failed, LastStatus: 403, LastError: "403 <Forbidden>"})
		b.must(b.AppendEnds(b.ctx, []events.End{e}))
		got := b.eventsOf(after, id)
		want := e.Event
		want.Time = got[0].Time
		b.same([]events.Event{want}, got)
		if want.Kind != events.RecipientFailed || want.Host != activity.HostOf(inbox) || want.Reason != "403 <Forbidden>" {
			b.t.Errorf("the event is %+v, want recipient.failed of %s for 403", want, inbox)
		}
		if d := want.Time.Sub(b.Now()); d < 0 || d > time.Hour*24*60 {
			b.t.Errorf("appended at %v, now is %v", want.Time, b.Now())
		}
	}},
	{"EndsThatMakeNoEvents", func(b *bed) {
		for _, s := range []activity.State{activity.Delivered, activity.Queued, activity.Retrying, activity.Parked, activity.Expired, activity.Cancelled, activity.Redundant, activity.Superseded} {
			if _, ok := events.EndOf(b.newID(), events.About{}, ledger.Recipient{Target: activity.Target{Inbox: b.inbox()}, State: s}); ok {
				b.t.Errorf("%s makes an event", s)
			}
		}
	}},
	{"AnEndThatIsAppendedAgainIsOneEvent", func(b *bed) {
		after, id := b.feedEnd(), b.newID()
		var ends []events.End
		for i := range 250 { // more than an item has
			ends = append(ends, b.end(id, events.About{}, b.inbox(), ledger.Recipient{Chunk: i / 50, Position: i % 50, State: activity.Dead}))
		}
		b.must(b.AppendEnds(b.ctx, append(ends[:100:100], ends[:100]...)))
		b.must(b.AppendEnds(b.ctx, ends))
		b.advance(time.Hour)
		b.must(b.AppendEnds(b.ctx, []events.End{b.end(b.newID(), events.About{}, b.inbox(), ledger.Recipient{State: activity.Dead})}))
		b.must(b.AppendEnds(b.ctx, ends))
		if got := b.eventsOf(after, id); len(got) != 250 {
			b.t.Errorf("%d events, want 250", len(got))
		}
		again := b.end(id, events.About{}, ends[0].Inbox, ledger.Recipient{State: activity.Dead, Generation: 3})
		b.must(b.AppendEnds(b.ctx, []events.End{again})) // it was retried, and died anew
		if got := b.eventsOf(after, id); len(got) != 251 {
			b.t.Errorf("%d events, want 251", len(got))
		}
	}},
	{"PagesOfAnySizeAreTheFeed", func(b *bed) {
		after := b.feedEnd()
		var want []string
		for i := range 40 {
			id := b.newID()
			var ends []events.End
			for p := range 1 + i%7 {
				ends = append(ends, b.end(id, events.About{}, b.inbox(), ledger.Recipient{Position: p, State: activity.Dead}))
				want = append(want, ends[p].ID)
			}
			b.must(b.AppendEnds(b.ctx, ends))
			b.advance(time.Second)
		}
		slices.Sort(want)
		for _, limit := range []int{1, 2, 3, 10, 100, 1000} {
			var got []string
			last := time.Time{}
			for cursor := after; ; {
				p, err := b.Events(b.ctx, cursor, limit)
				b.must(err)
				if len(p.Events) > limit {
					b.t.Fatalf("%d events on a page of %d", len(p.Events), limit)
				}
				for _, e := range p.Events {
					if e.Time.Before(last) {
						b.t.Errorf("%v after %v", e.Time, last)
					}
					last = e.Time
					if slices.Contains(want, e.ID) {
						got = append(got, e.ID)
					}
				}
				if cursor = p.Next; !p.More {
					break
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				b.t.Errorf("pages of %d have %d events, want %d", limit, len(got), len(want))
			}
		}
	}},
	{"ACursorThatTheFeedDidNotGiveOut", func(b *bed) {
		good := b.feedEnd()
		for _, bad := range []string{"x", "AQ", "!", good + "A", good[:len(good)-2], strings.Repeat("_", 400), "Af______________8B" + good} {
			if _, err := b.Events(b.ctx, bad, 10); !errors.Is(err, events.ErrBadCursor) {
				b.t.Errorf("%q: %v", bad, err)
			}
		}
	}},
	{"HowOftenAnInboxIsGone", func(b *bed) {
		after, inbox, began := b.feedEnd(), b.inbox(), b.Now()
		var ids []activity.ID
		var last []events.End
		for range 12 {
			id := b.newID()
			ids = append(ids, id)
			last = []events.End{b.end(id, events.About{}, inbox, ledger.Recipient{State: activity.Failed, LastStatus: 410})}
			b.must(b.AppendEnds(b.ctx, last))
			b.advance(time.Minute)
		}
		b.must(b.AppendEnds(b.ctx, last)) // again, after a crash
		for i, id := range ids {
			got := b.eventsOf(after, id)
			if len(got) != 1 || got[0].Kind != events.RecipientGone || got[0].Count != i+1 || !got[0].Since.Equal(began) {
				b.t.Fatalf("answer %d: %+v", i+1, got)
			}
		}
	}},
	{"AnAnswerIsCountedOnceAlthoughItsEventWasNotAppended", func(b *bed) {
		after, inbox, id := b.feedEnd(), b.inbox(), b.newID()
		e := []events.End{b.end(id, events.About{}, inbox, ledger.Recipient{State: activity.Failed, LastStatus: 404})}
		deaf := &failing{Table: b.table, rate: 1, only: "E#"}
		if err := store.New(deaf, b.Now).AppendEnds(b.ctx, e); err == nil {
			b.t.Fatal("the end was appended")
		}
		b.must(b.AppendEnds(b.ctx, e))
		if got := b.eventsOf(after, id); len(got) != 1 || got[0].Count != 1 {
			b.t.Errorf("events %+v, want one with the count 1", got)
		}
	}},
	{"ManyWritersAndReaders", manyWriters},
	{"AStormIsReadInPages", func(b *bed) {
		after := b.feedEnd()
		ids := map[activity.ID]bool{}
		var g sync.WaitGroup
		gate := make(chan struct{}, 16)
		activities := b.pick(60, 200)
		for range activities {
			id := b.newID()
			ids[id] = true
			g.Go(func() {
				gate <- struct{}{}
				defer func() { <-gate }()
				var ends []events.End
				for p := range 50 {
					ends = append(ends, b.end(id, events.About{}, fmt.Sprintf("https://storm.example/u/%d/inbox", p), ledger.Recipient{Position: p, State: activity.Dead}))
				}
				if err := b.AppendEnds(b.ctx, ends); err != nil {
					b.t.Error(err)
				}
			})
		}
		g.Wait()
		seen := map[string]bool{}
		pages := 0
		for cursor, more := after, true; more; pages++ {
			p, err := b.Events(b.ctx, cursor, 1000)
			b.must(err)
			for _, e := range p.Events {
				if ids[e.ActivityID] {
					seen[e.ID] = true
				}
			}
			cursor, more = p.Next, p.More
		}
		if want := activities * 50; len(seen) != want {
			b.t.Errorf("%d events were read, want %d", len(seen), want)
		}
		if least := activities * 50 / 1000; pages < least {
			b.t.Errorf("the events came on %d pages, want %d at least", pages, least)
		}
	}},
	{"AServersChangeIsOneEvent", func(b *bed) {
		after, st := b.feedEnd(), b.server()
		st.LastEvent = ""
		host, _ := circuit.HostOf(st.Key)
		save := func(p circuit.Phase) {
			var wg sync.WaitGroup
			for range 8 { // of which one succeeds
				wg.Go(func() {
					mine := st
					mine.Phase = p
					if _, err := b.SaveServer(b.ctx, mine); err != nil && !errors.Is(err, circuit.ErrChanged) {
						b.t.Error(err)
					}
				})
			}
			wg.Wait()
			states, err := b.Servers(b.ctx, st.Key)
			b.must(err)
			st = states[st.Key]
			b.advance(time.Second)
		}
		for _, p := range []circuit.Phase{
			circuit.Healthy, circuit.Unhealthy, circuit.HalfOpen, circuit.Unhealthy, circuit.Exhausted, circuit.Exhausted,
			circuit.HalfOpen, circuit.Recovering, circuit.Healthy, circuit.Paused, circuit.Gone, circuit.Gone, circuit.Healthy,
			circuit.Unhealthy, circuit.Blocked, circuit.Healthy,
		} {
			st.Since = b.Now()
			save(p)
		}
		var kinds []events.Kind
		for _, e := range b.all(after) {
			if e.Host == host {
				kinds = append(kinds, e.Kind)
			}
		}
		b.same([]events.Kind{
			events.ServerUnhealthy, events.ServerExhausted, events.ServerRecovered, events.ServerGone, events.ServerRecovered, events.ServerUnhealthy,
		}, kinds)
	}},
	{"AServersChangeAndItsEventAreWrittenTogether", func(b *bed) {
		for _, acts := range []bool{false, true} {
			after, st := b.feedEnd(), b.server()
			st.LastEvent = ""
			host, _ := circuit.HostOf(st.Key)
			broken := &failing{Table: b.table, rate: 1, acts: acts}
			if _, err := store.New(broken, b.Now).SaveServer(b.ctx, st); err == nil {
				b.t.Fatal("saved")
			}
			states, err := b.Servers(b.ctx, st.Key)
			b.must(err)
			n := 0
			for _, e := range b.all(after) {
				if e.Host == host {
					n++
				}
			}
			if saved := len(states); saved != n || (saved == 1) != acts {
				b.t.Errorf("%d states and %d events, the write happened: %v", saved, n, acts)
			}
		}
	}},
	{"AMarkIsMovedByOneReaderAtATime", func(b *bed) {
		reader := "bus " + string(b.newID())
		cursor, version, err := b.Mark(b.ctx, reader)
		b.must(err)
		if cursor != "" || version != "" {
			b.t.Errorf("a new reader is at %q", cursor)
		}
		first, err := b.SetMark(b.ctx, reader, "a", "")
		b.must(err)
		if _, err := b.SetMark(b.ctx, reader, "x", ""); !errors.Is(err, events.ErrChanged) {
			b.t.Errorf("begun again: %v", err)
		}
		_, err = b.SetMark(b.ctx, reader, "b", first)
		b.must(err)
		if _, err := b.SetMark(b.ctx, reader, "x", first); !errors.Is(err, events.ErrChanged) {
			b.t.Errorf("moved from an old version: %v", err)
		}
		if cursor, _, err = b.Mark(b.ctx, reader); err != nil || cursor != "b" {
			b.t.Errorf("at %q, %v", cursor, err)
		}
	}},
	{"WhatAnEndCosts", func(b *bed) {
		var ends []events.End
		id := b.newID()
		for p := range 50 {
			inbox := fmt.Sprintf("https://%s.example/users/somebody/inbox", strings.ToLower(string(b.newID())))
			ends = append(ends, b.end(id, events.About{ID: "https://social.example/users/me/statuses/1/activity", Type: "Create", Actor: "https://social.example/users/me"}, inbox, ledger.Recipient{
				Position: p, State: activity.Failed, LastStatus: 403, LastError: "403 Forbidden",
			}))
		}
		b.must(b.AppendEnds(b.ctx, []events.End{b.end(id, events.About{}, b.inbox(), ledger.Recipient{Chunk: 9, State: activity.Dead})})) // the log has begun
		for _, n := range []int{1, 5, 50} {
			got := b.table.of(func() { b.must(b.AppendEnds(b.ctx, ends[:n])) })
			ends = ends[:len(ends):len(ends)]
			b.t.Logf("%d failed: %d write units, %d read units", n, got.writeUnits, got.readUnits)
			if got.writeUnits > n {
				b.t.Errorf("%d failed recipients cost %d write units", n, got.writeUnits)
			}
			for i := range ends {
				ends[i].ID += "x"
			}
		}
	}},
}}

// inbox is one that no other test has.
func (b *bed) inbox() string {
	return "https://" + strings.ToLower(string(b.newID())) + ".example/inbox"
}

func (b *bed) end(id activity.ID, about events.About, inbox string, r ledger.Recipient) events.End {
	b.t.Helper()
	r.Target, r.UpdatedAt = activity.Target{Inbox: inbox}, b.Now()
	e, ok := events.EndOf(id, about, r)
	if !ok {
		b.t.Fatalf("%s makes no event", r.State)
	}
	return e
}

func (b *bed) feedEnd() string {
	b.t.Helper()
	after, err := b.EventsEnd(b.ctx)
	b.must(err)
	return after
}

// all returns everything after a cursor.
func (b *bed) all(after string) (all []events.Event) {
	b.t.Helper()
	for {
		p, err := b.Events(b.ctx, after, 500)
		b.must(err)
		all = append(all, p.Events...)
		if after = p.Next; !p.More {
			return all
		}
	}
}

func (b *bed) eventsOf(after string, id activity.ID) []events.Event {
	b.t.Helper()
	return slices.DeleteFunc(b.all(after), func(e events.Event) bool { return e.ActivityID != id })
}

var errLost = errors.New("lost")

// failing is a table some of whose writes fail, before or after they were made.
type failing struct {
	table.Table
	rate float64
	draw *rand.Rand // needed if rate is below 1
	acts bool       // always after
	only string
}

func (f *failing) Transact(ctx context.Context, ops []table.Op) error {
	return f.write(ops[0].Put.PK, func() error { return f.Table.Transact(ctx, ops) })
}

func (f *failing) Put(ctx context.Context, it table.Item, cond table.Cond) error {
	return f.write(it.PK, func() error { return f.Table.Put(ctx, it, cond) })
}

func (f *failing) write(pk string, do func() error) error {
	if !strings.HasPrefix(pk, f.only) || f.rate < 1 && f.draw.Float64() >= f.rate {
		return do()
	}
	if f.acts || f.rate < 1 && f.draw.IntN(2) == 0 {
		if err := do(); err != nil {
			return err
		}
	}
	return errLost
}

// manyWriters has writers whose clocks differ and whose writes fail append the same ends, while
// readers follow.
func manyWriters(b *bed) {
	const writers, activities, each = 6, 12, 5
	after := b.feedEnd()
	// Other tests on the table may have appended events by clocks that run ahead.
	end, err := events.ParseCursor(after)
	b.must(err)
	for _, e := range b.all(end.Back(1).String()) {
		if ahead := e.Time.Sub(b.Now()); ahead > 0 {
			b.advance(ahead)
		}
	}
	var ends [][]events.End
	want := map[string]bool{}
	for range activities {
		id := b.newID()
		var es []events.End
		for p := range each {
			state, status := activity.Dead, 503
			if p == 0 {
				state, status = activity.Failed, 404
			}
			e := b.end(id, events.About{}, b.inbox(), ledger.Recipient{Position: p, State: state, LastStatus: status})
			es, want[e.ID] = append(es, e), true
		}
		ends = append(ends, es)
	}
	var writing, reading sync.WaitGroup
	done := make(chan struct{})
	for w := range writers {
		skew := time.Duration(w-writers/2) * time.Second
		draw := rand.New(rand.NewPCG(uint64(w), 1))
		st := store.New(&failing{Table: b.table, rate: 0.3, draw: draw}, func() time.Time { return b.Now().Add(skew) })
		writing.Go(func() {
			for _, i := range draw.Perm(activities) {
				from := draw.IntN(each)
				for tries := 0; ; tries++ {
					err := st.AppendEnds(b.ctx, append(ends[i][from:each:each], ends[i][:from]...))
					if err == nil {
						break
					}
					if tries == 100 || !errors.Is(err, errLost) {
						b.t.Error(err)
						return
					}
				}
			}
		})
	}
	for _, limit := range []int{1, 3, 100} {
		reading.Go(func() {
			seen := map[string]bool{}
			var last time.Time
			cursor := after
			for finish := false; ; {
				select {
				case <-done:
					finish = true
				default:
				}
				p, err := b.Events(b.ctx, cursor, limit)
				if err != nil {
					b.t.Error(err)
					return
				}
				for _, e := range p.Events {
					if !want[e.ID] {
						continue
					}
					if seen[e.ID] {
						b.t.Errorf("%s is repeated", e.ID)
					}
					seen[e.ID] = true
					if e.Time.Before(last.Add(-events.Lag)) {
						b.t.Errorf("%v comes after %v", e.Time, last)
					}
					if e.Time.After(last) {
						last = e.Time
					}
				}
				cursor = p.Next
				if finish && !p.More && len(p.Events) == 0 {
					break
				}
			}
			if len(seen) != len(want) {
				b.t.Errorf("a reader with pages of %d has seen %d of %d", limit, len(seen), len(want))
			}
		})
	}
	writing.Wait()
	close(done)
	reading.Wait()
}
