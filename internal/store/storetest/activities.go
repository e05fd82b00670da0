package storetest

import (
	"errors"
	"time"

	"github.com/google/go-cmp/cmp"

	"fedpost/internal/activity"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
)

var activities = group{"activities", []testCase{
	{"ARecordIsReadAsItWasWritten", func(b *bed) {
		r := b.newRecord(3)
		r.DueAt, r.ExpiresAt, r.Fingerprint, r.OrderingKey = b.in(time.Hour), b.in(2*time.Hour), "print", "thread 7"
		b.must(b.CreateActivity(b.ctx, r))
		b.same(r, b.record(r.ID))
		k, err := b.Inspect(b.ctx, message.Unit{Activity: r.ID, Position: message.Whole})
		b.must(err)
		if !k.Found {
			b.t.Error("Inspect does not find the record")
		}
		b.same(r, k.Record)
	}},
	{"CreatingAgainIsHarmless", func(b *bed) {
		r := b.created(3)
		again := r
		again.CreatedAt = b.in(time.Minute) // a take-over has a clock of its own
		b.must(b.CancelActivity(b.ctx, r.ID))
		b.must(b.CreateActivity(b.ctx, again))
		r.Cancelled = true
		b.same(r, b.record(r.ID))
	}},
	{"AnotherActivityOfThatIDIsRefused", func(b *bed) {
		r := b.created(3)
		other := r
		other.Fingerprint = "other"
		if err := b.CreateActivity(b.ctx, other); !errors.Is(err, ledger.ErrExists) {
			b.t.Errorf("CreateActivity: %v", err)
		}
		b.same(r, b.record(r.ID))
	}},
	{"ADroppedActivityIsGone", func(b *bed) {
		r := b.created(3)
		b.must(b.DropActivity(b.ctx, r.ID))
		b.must(b.DropActivity(b.ctx, r.ID))
		b.noActivity(r.ID)
		b.must(b.CreateActivity(b.ctx, r))
	}},
	{"AnActivityPastItsRetentionIsGone", func(b *bed) {
		r := b.created(3)
		b.advance(r.Forget.Sub(b.Now()))
		b.noActivity(r.ID)
		if err := b.CancelActivity(b.ctx, r.ID); !errors.Is(err, ledger.ErrNotFound) {
			b.t.Errorf("CancelActivity: %v", err)
		}
		k, err := b.Inspect(b.ctx, message.Unit{Activity: r.ID, Position: message.Whole})
		b.must(err)
		if k.Found {
			b.t.Error("Inspect finds an expired record")
		}
		r.Forget, r.Fingerprint = b.in(time.Hour), "its successor"
		b.must(b.CreateActivity(b.ctx, r))
	}},
	{"CancellingIsRemembered", func(b *bed) {
		r := b.created(3)
		b.must(b.CancelActivity(b.ctx, r.ID))
		b.must(b.CancelActivity(b.ctx, r.ID))
		k, err := b.Inspect(b.ctx, message.Unit{Activity: r.ID, Position: 1})
		b.must(err)
		if !k.Record.Cancelled {
			b.t.Error("Inspect does not show the cancellation")
		}
		if err := b.CancelActivity(b.ctx, b.newID()); !errors.Is(err, ledger.ErrNotFound) {
			b.t.Errorf("CancelActivity of nothing: %v", err)
		}
	}},
	{"ACancellationOutlivesItsRecordByWhatADeliveryMayWait", func(b *bed) {
		r := b.newRecord(3)
		r.Forget = b.in(24 * time.Hour)
		b.must(b.CreateActivity(b.ctx, r))
		b.must(b.CancelActivity(b.ctx, r.ID))
		r.Cancelled = true
		b.same(r, b.record(r.ID))
		b.advance(100 * 24 * time.Hour) // RETRY_GIVE_UP is 90 days at most
		b.same(r, b.record(r.ID))
		for _, position := range []int{message.Whole, 1} {
			k, err := b.Inspect(b.ctx, message.Unit{Activity: r.ID, Position: position})
			b.must(err)
			if !k.Record.Cancelled {
				b.t.Errorf("Inspect of position %d does not show the cancellation", position)
			}
		}
		if c, err := b.Cancelled(b.ctx, []activity.ID{r.ID}); err != nil || !c[r.ID] {
			b.t.Errorf("Cancelled: %v, %v", c, err)
		}
		if v, err := ledger.ViewOf(b.ctx, b, r.ID, "", 10, b.Now()); !errors.Is(err, ledger.ErrNotFound) {
			b.t.Errorf("callers still see it: %+v, %v", v, err)
		}
	}},
	{"WhyAnActivityWasLostIsRememberedOnce", func(b *bed) {
		r := b.created(3)
		for i, why := range []string{"its payload is gone", "something else"} {
			first, err := b.LoseActivity(b.ctx, r.ID, why)
			b.must(err)
			if first != (i == 0) {
				b.t.Errorf("call %d says that it is the first: %t", i+1, first)
			}
		}
		if got := b.record(r.ID); got.Lost != "its payload is gone" {
			b.t.Errorf("it was lost as %q", got.Lost)
		}
		if _, err := b.LoseActivity(b.ctx, b.newID(), "gone"); !errors.Is(err, ledger.ErrNotFound) {
			b.t.Errorf("LoseActivity of nothing: %v", err)
		}
	}},
	{"HowLongAnActivityIsKeptCanBeChangedAndItsChunksStay", func(b *bed) {
		w := b.work(1)
		c := w.claim(w.chunk(), "worker")
		w.record(&c, w.deliveries(1)...)
		r := b.record(w.id)
		for _, keep := range []time.Duration{30 * 24 * time.Hour, 24 * time.Hour} {
			r.Forget = b.in(keep)
			b.must(b.KeepActivity(b.ctx, r.ID, r.Forget))
			b.must(b.KeepActivity(b.ctx, r.ID, r.Forget))
			b.same(r, b.record(r.ID))
		}
		b.advance(24 * time.Hour)
		b.noActivity(r.ID)
		if err := b.KeepActivity(b.ctx, r.ID, b.in(time.Hour)); !errors.Is(err, ledger.ErrNotFound) {
			b.t.Errorf("KeepActivity: %v", err)
		}
		if k := w.inspect(w.chunk()); k.Found || k.Recipients[0].State != activity.Delivered {
			b.t.Errorf("of the chunk is known: %+v", k)
		}
	}},
	{"ChunksArePlannedInAnyNumberOfSteps", func(b *bed) {
		r := b.newRecord(0)
		targets := inboxes(7, false)
		r.Targets, r.Recipients, r.Chunk = 7, 7, 3
		b.must(b.CreateActivity(b.ctx, r))
		chunks := [][]activity.Target{targets[:3], targets[3:6], targets[6:]}
		b.must(b.PlanChunks(b.ctx, r.ID, 0, chunks[:2], r.Forget))
		got, err := b.Chunks(b.ctx, r, 0, 2)
		b.must(err)
		if len(got) != 3 || got[2].Targets != nil || got[0].Touched {
			b.t.Fatalf("half planned: %+v", got)
		}
		b.must(b.PlanChunks(b.ctx, r.ID, 1, chunks[1:], r.Forget))
		got, err = b.Chunks(b.ctx, r, 1, 2)
		b.must(err)
		if len(got) != 2 {
			b.t.Fatalf("%d chunks", len(got))
		}
		b.same(ledger.Chunk{Number: 1, Targets: chunks[1], Recipients: map[int]ledger.Recipient{}}, got[0])
		b.same(ledger.Chunk{Number: 2, Targets: chunks[2], Recipients: map[int]ledger.Recipient{}}, got[1])
	}},
	{"InlineTargetsAreDealtIntoChunks", func(b *bed) {
		r := b.newRecord(3)
		r.Chunk = 1 // an ordered activity
		b.must(b.CreateActivity(b.ctx, r))
		got, err := b.Chunks(b.ctx, r, 0, 2)
		b.must(err)
		for n, c := range got {
			b.same(r.Inline[n:n+1], c.Targets)
		}
	}},
}}

// newRecord returns the record of an activity to n inboxes.
func (b *bed) newRecord(n int) ledger.Record {
	r := ledger.Record{
		ID: b.newID(), Protocol: activity.ActivityPub, Type: "Create", CreatedAt: b.Now(),
		Recipients: n, Targets: n, Chunk: ledger.ChunkSize, Forget: b.in(8 * 24 * time.Hour),
	}
	if n > 0 {
		r.Inline = inboxes(n, false)
	}
	return r
}

// created records an activity to n inboxes.
func (b *bed) created(n int) ledger.Record {
	b.t.Helper()
	r := b.newRecord(n)
	b.must(b.CreateActivity(b.ctx, r))
	return r
}

func (b *bed) record(id activity.ID) ledger.Record {
	b.t.Helper()
	r, err := b.Activity(b.ctx, id)
	b.must(err)
	return r
}

func (b *bed) noActivity(id activity.ID) {
	b.t.Helper()
	if r, err := b.Activity(b.ctx, id); !errors.Is(err, ledger.ErrNotFound) {
		b.t.Errorf("Activity: %+v, %v", r, err)
	}
}

func (b *bed) same(want, got any) {
	b.t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		b.t.Errorf("(-want +got):\n%s", d)
	}
}
