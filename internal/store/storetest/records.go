package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/store"
)

var records = group{"records", []testCase{
	{"AnOutcomeIsReadAsItWasWritten", func(b *bed) {
		full := ledger.Recipient{
			State: activity.Superseded, Attempts: 3, LastStatus: 503, LastError: "503 <&>", Response: "try \"later\"\n\x00é",
			Note: "acknowledgement lost", NextAttemptAt: b.in(40 * time.Second), UpdatedAt: b.in(-time.Second),
			Generation: 7, By: "01ARZ3NDEKTSV4RRFFQ69G5FAV",
		}
		unattempted := ledger.Recipient{Position: 1, State: activity.Parked}
		w := b.work(3)
		targets := b.record(w.id).Inline
		full.Target, unattempted.Target = targets[0], targets[1]
		c := w.claim(w.chunk(), "chunk")
		w.record(&c, full, unattempted)
		b.same(map[int]ledger.Recipient{0: full, 1: unattempted}, w.inspect(w.chunk()).Recipients)

		own := full
		own.Position, own.Target, own.State, own.Generation, own.Own = 1, targets[1], activity.Retrying, 9, true
		one := w.claim(w.one(1, 9), "position")
		w.record(&one, own)
		b.same(map[int]ledger.Recipient{0: full, 1: own}, w.inspect(w.chunk()).Recipients)
		b.same(map[int]ledger.Recipient{1: own}, w.inspect(w.one(1, 9)).Recipients)
	}},
	{"OutcomesAddUp", func(b *bed) {
		w := b.work(4)
		c := w.claim(w.chunk(), "chunk")
		b.must(b.Record(b.ctx, &c, []ledger.Recipient{w.outcome(0, activity.Delivered)}, false))
		b.advance(time.Second)
		b.must(b.Record(b.ctx, &c, []ledger.Recipient{w.outcome(2, activity.Failed), w.outcomeOf(1, activity.Retrying, 1)}, false))
		b.must(b.Record(b.ctx, &c, []ledger.Recipient{w.outcomeOf(1, activity.Retrying, 2)}, true))
		rs := w.inspect(w.chunk()).Recipients
		b.same([]int{0, 1, 2}, sorted(rs))
		if !rs[0].UpdatedAt.Equal(b.in(-time.Second)) || !rs[2].UpdatedAt.Equal(b.Now()) || rs[1].Generation != 2 {
			b.t.Errorf("the records are %+v, want the first of a second ago, the others of now", rs)
		}
	}},
	{"DeliveredStaysDelivered", func(b *bed) {
		for _, unit := range units {
			w := b.work(4)
			c := w.claim(unit(w), "worker")
			b.must(b.Record(b.ctx, &c, []ledger.Recipient{w.outcomeOf(1, activity.Delivered, 1)}, false))
			w.record(&c, w.outcomeOf(1, activity.Retrying, 1))
			w.shows(1, activity.Delivered)
		}
	}},
	{"AClaimKeepsWhatWasRecordedBefore", func(b *bed) {
		w := b.work(4)
		c := w.claim(w.chunk(), "first")
		b.must(b.Record(b.ctx, &c, []ledger.Recipient{w.outcome(0, activity.Delivered)}, false))
		b.advance(lease)
		c = w.claim(w.chunk(), "second")
		b.same([]int{0}, sorted(c.Known.Recipients))
		w.record(&c, w.outcome(1, activity.Delivered))
		b.same([]int{0, 1}, sorted(w.inspect(w.chunk()).Recipients))
	}},
	{"NothingIsWrittenByAnOwnerWhoLostTheClaim", func(b *bed) {
		w := b.work(4)
		slow := w.claim(w.chunk(), "slow")
		b.must(b.Record(b.ctx, &slow, []ledger.Recipient{w.outcome(0, activity.Delivered)}, false))
		b.advance(lease)
		w.claim(w.chunk(), "quick")
		for _, done := range []bool{false, true} {
			err := b.Record(b.ctx, &slow, []ledger.Recipient{w.outcome(1, activity.Delivered)}, done)
			if !errors.Is(err, ledger.ErrClaimed) {
				b.t.Errorf("Record: %v", err)
			}
		}
		b.same([]int{0}, sorted(w.inspect(w.chunk()).Recipients))
	}},
	{"ALapsedClaimThatNobodyTookStillRecords", func(b *bed) {
		w := b.work(4)
		c := w.claim(w.chunk(), "slow")
		b.advance(2 * lease)
		w.record(&c, w.outcome(1, activity.Delivered))
		w.shows(1, activity.Delivered)
	}},
	{"AClaimThatEndedRecordsNothing", func(b *bed) {
		w := b.work(4)
		c := w.claim(w.chunk(), "first")
		ended := c
		w.record(&c)
		for _, c := range []ledger.Claim{c, ended} {
			err := b.Record(b.ctx, &c, []ledger.Recipient{w.outcome(1, activity.Delivered)}, false)
			if !errors.Is(err, ledger.ErrClaimed) {
				b.t.Errorf("Record: %v", err)
			}
		}
	}},
	{"APositionsOwnRecordOutlivesTheChunks", func(b *bed) {
		w := b.work(4)
		chunk := w.claim(w.chunk(), "chunk")
		b.must(b.Record(b.ctx, &chunk, []ledger.Recipient{w.outcomeOf(1, activity.Retrying, 1)}, false))
		one := w.claim(w.one(1, 1), "position")
		if r := one.Known.Recipients[1]; r.Attempts != 1 || r.State != activity.Retrying {
			b.t.Errorf("the position's worker is told %+v", r)
		}
		again := w.outcomeOf(1, activity.Retrying, 1)
		again.Attempts, again.NextAttemptAt = 2, b.in(time.Minute)
		w.record(&one, again)
		w.record(&chunk, w.outcome(0, activity.Delivered))
		if r := w.inspect(w.chunk()).Recipients[1]; r.Attempts != 2 || !r.Own || !r.NextAttemptAt.Equal(again.NextAttemptAt) {
			b.t.Errorf("after the chunk's end: %+v", r)
		}
		w.shows(0, activity.Delivered)
	}},
	{"LongAnswersAreKeptWhole", func(b *bed) {
		w := b.work(50)
		c := w.claim(w.chunk(), "chunk")
		rnd := rand.New(rand.NewPCG(1, 2))
		want := make(map[int]string)
		step := func(from, to int, done bool) {
			var rs []ledger.Recipient
			for p := from; p < to; p++ {
				r := w.outcome(p, activity.Failed)
				var body strings.Builder
				for body.Len() < 1024 {
					fmt.Fprintf(&body, "%x ", rnd.Uint64())
				}
				r.Response = body.String()[:1024]
				want[p] = r.Response
				rs = append(rs, r)
			}
			b.must(b.Record(b.ctx, &c, rs, done))
		}
		step(0, 1, false)
		step(1, 20, false)
		step(20, 50, false)
		step(5, 6, true) // replaces what had moved out
		chunks, err := b.Chunks(b.ctx, b.record(w.id), 0, 0)
		b.must(err)
		for p, r := range chunks[0].Recipients {
			if r.Response != want[p] || r.LastError != "503 Service Unavailable" {
				b.t.Errorf("position %d: %q, %q", p, r.LastError, r.Response)
			}
		}
		if n := len(chunks[0].Recipients); n != 50 {
			b.t.Errorf("%d recipients", n)
		}
		state := b.table.of(func() { w.inspect(w.chunk()) })
		if state.readUnits > 1 {
			b.t.Errorf("inspecting a chunk of long answers costs %+v", state)
		}
	}},
	{"TheJournalIsFoundWhenTheClaimHasLapsed", func(b *bed) {
		w, other, single := b.work(4), b.work(4), b.work(4)
		journal := string(b.newID())
		chunk, one, foreign := w.chunk(), single.one(3, 1), other.chunk()
		long := w.outcome(2, activity.Failed)
		long.LastError, long.Response = strings.Repeat("e", 1000), "response"
		w.claimNoting(chunk, "chunk", journal)
		single.claimNoting(one, "position", journal)
		other.claimNoting(foreign, "other", journal)
		note := func(u message.Unit, rs ...ledger.Recipient) ledger.JournalEntry {
			return ledger.JournalEntry{Unit: u, Recipients: rs}
		}
		for range 2 { // repeating it is harmless
			b.costs("note", cost{writes: 1, writeUnits: 1}, func() {
				b.must(b.WriteJournal(b.ctx, journal, 0, []ledger.JournalEntry{
					note(chunk, w.outcome(0, activity.Delivered)), note(foreign, other.outcome(1, activity.Delivered)),
				}))
			})
			b.must(b.WriteJournal(b.ctx, journal, 1, []ledger.JournalEntry{note(chunk, long), note(one, single.outcomeOf(3, activity.Delivered, 1))}))
		}
		chunks, err := b.Chunks(b.ctx, b.record(w.id), 0, 0)
		b.must(err)
		if got := chunks[0].Recipients; got[0].State != activity.Delivered || got[2].State != activity.Failed {
			b.t.Errorf("while the claim holds, a view shows %q and %q", got[0].State, got[2].State)
		}
		alone, err := b.Chunks(b.ctx, b.record(single.id), 0, 0)
		b.must(err)
		if got := alone[0].Recipients[3]; got.State != activity.Delivered {
			b.t.Errorf("of a single position a view shows %q", got.State)
		}
		b.advance(lease)
		if k := w.inspect(w.chunk()); !k.Lapsed {
			b.t.Error("the chunk's claim has not lapsed")
		}
		k := single.inspect(one)
		if !k.Lapsed || k.Recipients[3].State != activity.Delivered {
			b.t.Errorf("the position is %q; its claim has lapsed: %t", k.Recipients[3].State, k.Lapsed)
		}
		if _, err := b.Claim(b.ctx, one, k, "late", b.in(lease)); !errors.Is(err, ledger.ErrStale) {
			b.t.Errorf("a position that was noted as delivered is claimed again: %v", err)
		}
		// So nobody records the outcome, and a view still has to show it.
		chunks, err = b.Chunks(b.ctx, b.record(single.id), 0, 0)
		b.must(err)
		if got := chunks[0].Recipients[3]; got.State != activity.Delivered {
			b.t.Errorf("a view shows the position that was noted as delivered as %q", got.State)
		}
		b.same([]int{1}, sorted(other.inspect(other.chunk()).Recipients))

		// The next claim finds the journal of the last, and has another.
		c := w.claimNoting(chunk, "next", "another of "+journal)
		for p, state := range map[int]activity.State{0: activity.Delivered, 2: activity.Failed} {
			if got := c.Known.Recipients[p]; got.State != state || len(got.LastError) > 100 || got.Response != "" {
				b.t.Errorf("position %d is %q with an error of %d bytes", p, got.State, len(got.LastError))
			}
		}
		b.advance(lease)
		c = w.claim(w.chunk(), "third")
		w.record(&c, w.outcome(1, activity.Delivered))
		b.same([]int{0, 1, 2}, sorted(w.inspect(w.chunk()).Recipients))
	}},
	{"WhatIsInTheJournalAndRecordedIsReadAsRecorded", func(b *bed) {
		w := b.work(2)
		u, journal := w.chunk(), string(b.newID())
		c := w.claimNoting(u, "chunk", journal)
		noted := w.outcome(0, activity.Failed)
		b.must(b.WriteJournal(b.ctx, journal, 0, []ledger.JournalEntry{{Unit: u, Recipients: []ledger.Recipient{noted}}}))
		recorded := noted
		recorded.Response = "the whole answer"
		w.record(&c, recorded)
		if got := w.inspect(w.chunk()).Recipients[0]; got.Response != recorded.Response {
			b.t.Errorf("the answer is %q", got.Response)
		}
	}},
	{"TextsTooLargeForAnItemAreDroppedAndOutcomesNever", func(b *bed) {
		w := b.work(50)
		rs := w.deliveries(50)
		for p := range 12 {
			rs[p] = w.outcome(p, activity.Failed)
			rs[p].LastError = noise(60_000 + p)
		}
		c := w.claim(w.chunk(), "chunk")
		w.record(&c, rs...)
		chunks, err := b.Chunks(b.ctx, b.record(w.id), 0, 0)
		b.must(err)
		for p, r := range chunks[0].Recipients {
			if r.State != rs[p].State || r.LastStatus != rs[p].LastStatus {
				b.t.Errorf("position %d is %s after status %d", p, r.State, r.LastStatus)
			}
		}
		if n := len(chunks[0].Recipients); n != 50 {
			b.t.Errorf("%d recipients", n)
		}

		w = b.work(2)
		one := w.claim(w.one(0, 1), "position")
		long := w.outcomeOf(0, activity.Failed, 1)
		long.Response = noise(900_000)
		w.record(&one, long)
		w.shows(0, activity.Failed)
		long = w.outcomeOf(1, activity.Dead, 1)
		long.Response = noise(900_000)
		_, err = b.PutRecipients(b.ctx, w.id, []ledger.Recipient{long}, b.in(time.Hour))
		b.must(err)
		w.shows(1, activity.Dead)
	}},
	{"AWorkerMayRepeatAWriteWhoseAnswerWasLost", func(b *bed) {
		w := b.work(4)
		deaf := &deafTable{Table: b.table}
		st := store.New(deaf, b.Now)
		for _, u := range []message.Unit{w.chunk(), w.one(1, 1)} {
			for _, done := range []bool{false, true} {
				k := w.inspect(u)
				deaf.next = true
				if _, err := st.Claim(b.ctx, u, k, "owner", b.in(lease)); !errors.Is(err, errDeaf) {
					b.t.Fatalf("Claim: %v", err)
				}
				c, err := st.Claim(b.ctx, u, k, "owner", b.in(lease))
				b.must(err)
				rs := []ledger.Recipient{w.outcomeOf(1, activity.Retrying, 1)}
				deaf.next = true
				if err := st.Record(b.ctx, &c, rs, done); !errors.Is(err, errDeaf) {
					b.t.Fatalf("Record: %v", err)
				}
				b.must(st.Record(b.ctx, &c, rs, done))
				w.shows(1, activity.Retrying)
				if !done {
					b.must(st.Record(b.ctx, &c, nil, true))
				}
			}
		}
	}},
	{"AParkedDeliveryThatDiedIsRecordedUnclaimed", func(b *bed) {
		w := b.work(9)
		chunk := w.claim(w.chunk(), "chunk")
		w.record(&chunk, w.outcome(1, activity.Delivered), w.outcomeOf(2, activity.Parked, 1), w.outcomeOf(3, activity.Parked, 1))
		held := w.claim(w.one(3, 1), "held")
		one := w.claim(w.one(4, 0), "own")
		w.record(&one, w.outcomeOf(4, activity.Parked, 2))
		var rs, want []ledger.Recipient
		for p, generation := range []int{0, 0, 1, 1, 2, 1} {
			r := w.outcomeOf(p, activity.Dead, generation)
			rs = append(rs, r)
			if p != 1 && p != 3 {
				want = append(want, r)
			}
		}
		stale := w.outcomeOf(4, activity.Dead, 1)
		forget := b.in(time.Hour)
		for range 2 {
			put, err := b.PutRecipients(b.ctx, w.id, rs, forget)
			b.must(err)
			b.same(want, put)
			put, err = b.PutRecipients(b.ctx, w.id, []ledger.Recipient{stale}, forget)
			b.must(err)
			b.same([]ledger.Recipient(nil), put)
		}
		w.shows(0, activity.Dead)
		w.shows(1, activity.Delivered)
		w.shows(2, activity.Dead)
		w.shows(4, activity.Dead)
		w.record(&held, w.outcomeOf(3, activity.Delivered, 1))
		w.shows(3, activity.Delivered)
	}},
	{"ACopyThatComesAfterTheRecordHasEndedIsNotSentAgain", func(b *bed) {
		w := b.work(3)
		b.must(b.KeepActivity(b.ctx, w.id, b.in(time.Hour)))
		c := w.claim(w.chunk(), "chunk")
		w.record(&c, w.outcome(0, activity.Delivered))
		one := w.claim(w.one(1, 1), "position")
		w.record(&one, w.outcomeOf(1, activity.Delivered, 1))
		b.advance(7 * 24 * time.Hour) // that long a queue may hold a copy
		b.noActivity(w.id)
		w.shows(0, activity.Delivered)
		w.shows(1, activity.Delivered)
		w.refused(w.one(1, 1), "copy", ledger.ErrStale)
	}},
	{"ARetryShortlyBeforeTheRecordEndsForgetsNothingEarlier", func(b *bed) {
		// The retry's message waits on a queue that lags while the record ends. A late copy of the
		// first message must still find that its recipient has failed and waits for the retry.
		w := b.work(3)
		ends := b.in(time.Minute)
		b.must(b.KeepActivity(b.ctx, w.id, ends))
		one := w.claim(w.one(1, 0), "position")
		w.record(&one, w.outcomeOf(1, activity.Failed, 0))
		b.advance(30 * time.Second)
		again := w.outcomeOf(1, activity.Queued, message.NextEpoch(0))
		if put, err := b.PutRecipients(b.ctx, w.id, []ledger.Recipient{again}, ends); err != nil || len(put) != 1 {
			b.t.Fatalf("put %+v, error %v; want one", put, err)
		}
		b.advance(time.Hour)
		b.noActivity(w.id)
		w.refused(w.one(1, 0), "copy", ledger.ErrStale)
	}},
	{"AnExpiredChunkStateIsNotFound", func(b *bed) {
		w := b.work(3)
		c := w.claim(w.chunk(), "chunk")
		w.record(&c, w.outcome(0, activity.Delivered))
		one := w.claim(w.one(1, 1), "position")
		w.record(&one, w.outcomeOf(1, activity.Delivered, 1))
		r := b.record(w.id)
		b.advance(14 * 24 * time.Hour) // outcomes outlast their record, by what a queue can hold
		if k := w.inspect(w.chunk()); k.Found || len(k.Recipients) != 0 {
			b.t.Errorf("found %+v, want nothing", k)
		}
		chunks, err := b.Chunks(b.ctx, r, 0, 0)
		b.must(err)
		if chunks[0].Touched {
			b.t.Errorf("the chunk is %+v, want untouched", chunks[0])
		}
	}},
}}

var errDeaf = errors.New("the answer was lost")

// deafTable does the next conditional write and loses its answer.
type deafTable struct {
	table.Table
	next bool
}

func (d *deafTable) Put(ctx context.Context, it table.Item, cond table.Cond) error {
	err := d.Table.Put(ctx, it, cond)
	if d.next {
		d.next = false
		return errDeaf
	}
	return err
}
