package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
)

const lease = time.Minute

var claims = group{"claims", []testCase{
	{"AClaimedChunkIsHeldUntilTheClaimLapses", func(b *bed) {
		w := b.work(3)
		w.claim(w.chunk(), "first")
		k := w.inspect(w.chunk())
		if !k.Claimed.Equal(b.in(lease)) || k.Lapsed {
			b.t.Errorf("while claimed: until %v, lapsed %v", k.Claimed, k.Lapsed)
		}
		w.refused(w.chunk(), "second", ledger.ErrClaimed)
		b.advance(lease)
		k = w.inspect(w.chunk())
		if !k.Claimed.IsZero() || !k.Lapsed {
			b.t.Errorf("after the lease: until %v, lapsed %v", k.Claimed, k.Lapsed)
		}
		w.claim(w.chunk(), "second")
	}},
	{"AClaimedPositionIsHeldUntilTheClaimLapses", func(b *bed) {
		w := b.work(3)
		w.claim(w.one(1, 0), "first")
		if k := w.inspect(w.one(1, 0)); !k.Claimed.Equal(b.in(lease)) {
			b.t.Errorf("claimed until %v", k.Claimed)
		}
		w.refused(w.one(1, 0), "second", ledger.ErrClaimed)
		w.claim(w.one(2, 0), "neighbour")
		b.advance(lease)
		if k := w.inspect(w.one(1, 0)); !k.Claimed.IsZero() || !k.Lapsed {
			b.t.Errorf("after the lease: until %v, lapsed %v", k.Claimed, k.Lapsed)
		}
		w.claim(w.one(1, 0), "second")
	}},
	{"AClaimEndsWithDone", func(b *bed) {
		for _, unit := range units {
			w := b.work(3)
			u := unit(w)
			c := w.claim(u, "first")
			b.must(b.Record(b.ctx, &c, nil, true))
			if k := w.inspect(u); !k.Claimed.IsZero() || k.Lapsed {
				b.t.Errorf("%+v: until %v, lapsed %v", u, k.Claimed, k.Lapsed)
			}
			w.claim(u, "second")
		}
	}},
	{"AClaimIsIdempotentForItsOwner", func(b *bed) {
		for _, unit := range units {
			w := b.work(3)
			u := unit(w)
			k := w.inspect(u)
			for range 2 {
				_, err := b.Claim(b.ctx, u, k, "first", b.in(lease))
				b.must(err)
			}
			if _, err := b.Claim(b.ctx, u, k, "second", b.in(lease)); !errors.Is(err, ledger.ErrClaimed) {
				b.t.Errorf("%+v by another owner, on old knowledge: %v", u, err)
			}
			c := w.claim(u, "first")
			b.must(b.Record(b.ctx, &c, []ledger.Recipient{w.outcomeOf(1, activity.Delivered, 1)}, true))
		}
	}},
	{"AClaimIsProlongedByRecord", func(b *bed) {
		w := b.work(3)
		c := w.claim(w.chunk(), "first")
		c.Until = b.in(3 * lease)
		b.must(b.Record(b.ctx, &c, nil, false))
		b.advance(2 * lease)
		w.refused(w.chunk(), "second", ledger.ErrClaimed)
	}},
	{"AStaleMessageIsRefusedAsStale", func(b *bed) {
		w := b.work(3)
		c := w.claim(w.one(1, 2), "first")
		w.record(&c, w.outcomeOf(1, activity.Retrying, 2))
		if r := w.inspect(w.one(1, 1)).Recipients[1]; r.Generation != 2 {
			b.t.Errorf("Inspect shows generation %d", r.Generation)
		}
		w.refused(w.one(1, 1), "late", ledger.ErrStale)
		w.claim(w.one(1, 2), "again")
	}},
	{"AClaimAlreadyMakesEarlierMessagesStale", func(b *bed) {
		w := b.work(3)
		c := w.claim(w.one(1, 2), "first")
		b.must(b.Record(b.ctx, &c, nil, true))
		w.refused(w.one(1, 1), "late", ledger.ErrStale)
	}},
	{"AFinalRecipientIsNeverClaimedAgain", func(b *bed) {
		for _, s := range []activity.State{activity.Delivered, activity.Failed, activity.Expired, activity.Redundant, activity.Superseded, activity.Cancelled} {
			w := b.work(3)
			c := w.claim(w.one(1, 0), "first")
			w.record(&c, w.outcomeOf(1, s, 0))
			w.refused(w.one(1, 0), "repeated", ledger.ErrStale)
			w.refused(w.one(1, 5), "later", ledger.ErrStale)
		}
	}},
	{"AFinalStateInTheChunkCountsForItsPosition", func(b *bed) {
		w := b.work(3)
		c := w.claim(w.chunk(), "first")
		w.record(&c, w.outcome(1, activity.Delivered))
		w.refused(w.one(1, 0), "released late", ledger.ErrStale)
		w.refused(w.one(1, 7), "sent again", ledger.ErrStale)
		w.claim(w.one(2, 0), "neighbour")
	}},
	{"ADeadRecipientIsRevivedByALaterGenerationOnly", func(b *bed) {
		for _, unit := range units {
			w := b.work(3)
			c := w.claim(unit(w), "first")
			dead := w.outcomeOf(1, activity.Dead, 3)
			dead.Attempts = 5
			w.record(&c, dead)
			w.refused(w.one(1, 3), "repeated", ledger.ErrStale)
			c = w.claim(w.one(1, 4), "revived")
			if r := c.Known.Recipients[1]; r.State != activity.Retrying || r.Attempts != 0 || r.Generation != 4 {
				b.t.Errorf("revived: %+v", r)
			}
			// Its worker may fail here, and a caller has to learn when the delivery goes on.
			if r := w.inspect(w.one(1, 4)).Recipients[1]; r.NextAttemptAt.Sub(b.Now()).Abs() > time.Millisecond {
				b.t.Errorf("revived, and tried next at %v, want now, %v", r.NextAttemptAt, b.Now())
			}
			w.refused(w.one(1, 3), "of its former life", ledger.ErrStale)
			w.record(&c, w.outcomeOf(1, activity.Delivered, 4))
			w.refused(w.one(1, 5), "once more", ledger.ErrStale)
		}
	}},
	{"APositionWaitsForAChunkThatMayBeAtIt", func(b *bed) {
		w := b.work(3)
		c := w.claim(w.chunk(), "chunk")
		if k := w.inspect(w.one(1, 0)); !k.Claimed.Equal(b.in(lease)) {
			b.t.Errorf("claimed until %v", k.Claimed)
		}
		w.refused(w.one(1, 0), "position", ledger.ErrClaimed)
		b.must(b.Record(b.ctx, &c, []ledger.Recipient{w.outcomeOf(1, activity.Retrying, 1)}, false))
		w.claim(w.one(1, 1), "position") // although the chunk's worker is still sending to the others
		w.refused(w.one(2, 0), "position", ledger.ErrClaimed)
	}},
	{"AChunkLeavesAloneWhatAPositionHasTaken", func(b *bed) {
		w := b.work(3)
		before := w.inspect(w.chunk())
		one := w.claim(w.one(1, 0), "position")
		// The chunk's worker looked before the position was taken.
		c, err := b.Claim(b.ctx, w.chunk(), before, "chunk", b.in(lease))
		b.must(err)
		if r, ok := c.Known.Recipients[1]; !ok || !r.Own || r.State != activity.Queued || !r.Claimed.Equal(b.in(lease)) {
			b.t.Errorf("the claim shows %+v, %v", r, ok)
		}
		if len(c.Known.Recipients) != 1 {
			b.t.Errorf("the claim shows %+v", c.Known.Recipients)
		}
		w.record(&c, w.outcome(0, activity.Delivered))
		w.record(&one, w.outcomeOf(1, activity.Delivered, 0))
		w.shows(0, activity.Delivered)
		w.shows(1, activity.Delivered)
	}},
	{"APositionThatLookedBeforeTheChunkWasTakenBacksOff", func(b *bed) {
		w := b.work(3)
		u := w.one(1, 0)
		before := w.inspect(u)
		c := w.claim(w.chunk(), "chunk")
		if _, err := b.Claim(b.ctx, u, before, "position", b.in(lease)); !errors.Is(err, ledger.ErrClaimed) {
			b.t.Fatalf("Claim: %v", err)
		}
		if r, ok := w.inspect(w.chunk()).Recipients[1]; ok {
			b.t.Errorf("the claim that was refused left %+v", r)
		}
		w.record(&c, w.outcome(1, activity.Delivered))
		if _, err := b.Claim(b.ctx, u, before, "position", b.in(lease)); !errors.Is(err, ledger.ErrStale) {
			b.t.Errorf("Claim after the delivery: %v", err)
		}
	}},
	{"AChunkBeyondTheFirstIsClaimedAlike", func(b *bed) {
		w := b.work(3)
		w.number = 12
		c := w.claim(w.chunk(), "first")
		w.refused(w.chunk(), "second", ledger.ErrClaimed)
		b.must(b.Record(b.ctx, &c, []ledger.Recipient{w.outcomeOf(1, activity.Retrying, 1)}, true))
		one := w.claim(w.one(1, 1), "position")
		w.record(&one, w.outcomeOf(1, activity.Parked, 2))
		k := w.inspect(w.chunk())
		if !k.Found || k.Record.ID != w.id {
			b.t.Errorf("record: %v %+v", k.Found, k.Record)
		}
		if r := k.Recipients[1]; r.State != activity.Parked || !r.Own || r.Chunk != 12 || r.Position != 1 {
			b.t.Errorf("recipient: %+v", r)
		}
	}},
}}

// units are the two kinds there are: a chunk, and a position of it.
var units = []func(w *work) message.Unit{
	(*work).chunk,
	func(w *work) message.Unit { return w.one(1, 1) },
}

// work is one chunk of an activity, and what its workers do.
type work struct {
	*bed
	id     activity.ID
	number int
}

func (b *bed) work(targets int) *work {
	b.t.Helper()
	return &work{bed: b, id: b.created(targets).ID}
}

func (w *work) chunk() message.Unit {
	return message.Unit{Activity: w.id, Chunk: w.number, Position: message.Whole}
}

func (w *work) one(position, generation int) message.Unit {
	return message.Unit{Activity: w.id, Chunk: w.number, Position: position, Generation: generation}
}

func (w *work) inspect(u message.Unit) ledger.Known {
	w.t.Helper()
	k, err := w.Inspect(w.ctx, u)
	w.must(err)
	return k
}

// try inspects and claims a unit.
func (w *work) try(ctx context.Context, u message.Unit, owner string) (ledger.Claim, error) {
	k, err := w.Inspect(ctx, u)
	if err != nil {
		return ledger.Claim{}, err
	}
	return w.Claim(ctx, u, k, owner, w.in(lease))
}

func (w *work) claim(u message.Unit, owner string) ledger.Claim {
	w.t.Helper()
	c, err := w.try(w.ctx, u, owner)
	if err != nil {
		w.t.Fatalf("claim of %+v by %q: %v", u, owner, err)
	}
	return c
}

// claimNoting is claim by an owner who writes outcomes to a journal.
func (w *work) claimNoting(u message.Unit, owner, journal string) ledger.Claim {
	w.t.Helper()
	k := w.inspect(u)
	k.Journal = journal
	c, err := w.Claim(w.ctx, u, k, owner, w.in(lease))
	if err != nil {
		w.t.Fatalf("claim of %+v by %q: %v", u, owner, err)
	}
	return c
}

func (w *work) refused(u message.Unit, owner string, want error) {
	w.t.Helper()
	if _, err := w.try(w.ctx, u, owner); !errors.Is(err, want) {
		w.t.Errorf("claim of %+v by %q: %v, want %v", u, owner, err, want)
	}
}

// record records outcomes and ends the claim.
func (w *work) record(c *ledger.Claim, rs ...ledger.Recipient) {
	w.t.Helper()
	w.must(w.Record(w.ctx, c, rs, true))
}

func (w *work) outcome(position int, s activity.State) ledger.Recipient {
	return w.outcomeOf(position, s, 0)
}

func (w *work) outcomeOf(position int, s activity.State, generation int) ledger.Recipient {
	r := ledger.Recipient{Chunk: w.number, Position: position, State: s, Generation: generation, Attempts: 1, UpdatedAt: w.Now()}
	switch s {
	case activity.Delivered:
		r.LastStatus = 202
	case activity.Retrying, activity.Dead, activity.Failed:
		r.LastStatus, r.LastError, r.Response = 503, "503 Service Unavailable", fmt.Sprintf("busy %d", position)
	}
	return r
}

// shows checks what is recorded of a position, in both views.
func (w *work) shows(position int, want activity.State) {
	w.t.Helper()
	whole, one := w.inspect(w.chunk()).Recipients[position], w.inspect(w.one(position, 0)).Recipients[position]
	for _, r := range []ledger.Recipient{whole, one} {
		if r.State != want {
			w.t.Errorf("position %d is %+v, want %s", position, r, want)
		}
	}
	w.same(whole, one)
}

func sorted(rs map[int]ledger.Recipient) []int {
	var ps []int
	for p := range rs {
		ps = append(ps, p)
	}
	slices.Sort(ps)
	return ps
}
