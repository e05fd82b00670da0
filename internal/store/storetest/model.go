package storetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"fedpost/internal/activity"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
)

// model runs random workers against the ledger: they look, claim by what they saw a while ago,
// record, lose their claims, and come back. A plain reference keeps account of who may do what.
var model = group{"model", []testCase{
	{"RandomWorkersAgreeWithTheReference", property(func(b *bed, t *rapid.T) {
		m := &reference{work: b.work(modelTargets), chunk: map[int]ledger.Recipient{}, own: map[int]*ownAccount{}}
		t.Repeat(map[string]func(*rapid.T){
			"look":    m.look,
			"claim":   m.claim,
			"record":  m.record,
			"die":     m.die,
			"advance": m.wait,
			"":        m.check,
		})
	})},
}}

const modelTargets = 3

// reference is the account with which the ledger is compared.
type reference struct {
	*work
	seen    []sight
	workers []*worker
	chunk   map[int]ledger.Recipient
	own     map[int]*ownAccount
}

// sight is what a worker read of a unit.
type sight struct {
	unit  message.Unit
	known ledger.Known
	fresh bool              // nothing has happened since
	chunk *ledger.Recipient // what a chunk's worker had recorded of the position
}

// worker is one that was granted a claim.
type worker struct {
	claim  ledger.Claim
	at     map[int]bool // the positions that it may attempt
	lost   bool         // taken over, or ended
	unsure bool         // perhaps lost to a worker that then withdrew
}

// ownAccount is the account of a position by itself.
type ownAccount struct {
	recorded   *ledger.Recipient
	generation int
}

func (m *reference) live(w *worker) bool { return !w.lost && w.claim.Until.After(m.Now()) }

// holder returns who holds a unit, if anyone does.
func (m *reference) holder(u message.Unit) *worker {
	for _, w := range m.workers {
		if w.claim.Unit.Position == u.Position && m.live(w) {
			return w
		}
	}
	return nil
}

// recipient is what the ledger has to show of a position.
func (m *reference) recipient(p int) (ledger.Recipient, bool) {
	if c, ok := m.chunk[p]; ok {
		return m.beside(p, &c)
	}
	return m.beside(p, nil)
}

// beside is what the ledger has to show of a position if a chunk's worker recorded that.
func (m *reference) beside(p int, chunk *ledger.Recipient) (ledger.Recipient, bool) {
	o := m.own[p]
	if o == nil && chunk == nil {
		return ledger.Recipient{}, false
	}
	if o == nil {
		return *chunk, true
	}
	r := ledger.Recipient{Position: p, State: activity.Queued}
	switch {
	case o.recorded != nil && chunk != nil:
		r = ledger.Merge(*chunk, *o.recorded)
	case o.recorded != nil:
		r = *o.recorded
	case chunk != nil:
		r = *chunk
	}
	r.Generation = max(r.Generation, o.generation)
	return r, true
}

// claimed returns the record that decides about a claim of a position, and whether there is one. A
// worker that saw a record does not look at the chunk again: only a worker whose claim had lapsed
// when the position was recorded could have recorded more there.
func (m *reference) claimed(s sight) (r ledger.Recipient, recorded bool) {
	p := s.unit.Position
	o := m.own[p]
	if s.chunk != nil || o != nil && o.recorded != nil {
		return m.beside(p, s.chunk)
	}
	_, recorded = m.chunk[p]
	r, _ = m.recipient(p)
	return r, recorded
}

// outdated reports whether a unit's message is too old for what is recorded.
func (m *reference) outdated(u message.Unit) bool {
	r, ok := m.recipient(u.Position)
	return ok && late(r, u)
}

func late(r ledger.Recipient, u message.Unit) bool {
	return !revives(r, u) && (r.State.Final() || u.Generation < r.Generation)
}

// revives reports whether a unit's message gives a recipient fresh attempts after its end.
func revives(r ledger.Recipient, u message.Unit) bool {
	switch r.State {
	case activity.Dead:
		return u.Generation > r.Generation
	case activity.Failed:
		return u.Generation/10_000 > r.Generation/10_000
	}
	return false
}

// generations are those of messages, of two retries on request among them.
var generations = []int{0, 1, 2, 3, 10_000, 10_001, 20_000}

// blocked reports whether a unit is held, or a worker of its chunk may be at the position.
func (m *reference) blocked(u message.Unit) bool {
	if m.holder(u) != nil {
		return true
	}
	if u.Position == message.Whole {
		return false
	}
	_, inChunk := m.chunk[u.Position]
	o := m.own[u.Position]
	return !inChunk && (o == nil || o.recorded == nil) && m.holder(m.work.chunk()) != nil
}

func (m *reference) stir() {
	for i := range m.seen {
		m.seen[i].fresh = false
	}
}

func (m *reference) look(t *rapid.T) {
	u := m.work.chunk()
	if p := rapid.IntRange(message.Whole, modelTargets-1).Draw(t, "position"); p != message.Whole {
		u = m.one(p, rapid.SampledFrom(generations).Draw(t, "generation"))
	}
	k := m.inspect(u)
	if u.Position != message.Whole && k.Claimed.IsZero() == m.blocked(u) {
		t.Errorf("%+v is claimed until %v", u, k.Claimed)
	}
	s := sight{unit: u, known: k, fresh: true}
	if c, ok := m.chunk[u.Position]; ok {
		s.chunk = &c
	}
	m.seen = append(m.seen, s)
}

func (m *reference) claim(t *rapid.T) {
	if len(m.seen) == 0 {
		t.Skip("nobody has looked")
	}
	s := m.seen[rapid.IntRange(0, len(m.seen)-1).Draw(t, "sight")]
	owner := fmt.Sprint("worker ", len(m.workers))
	// Known's map is the worker's own.
	s.known.Recipients = maps.Clone(s.known.Recipients)
	c, err := m.Claim(m.ctx, s.unit, s.known, owner, m.in(lease))
	one := s.unit.Position != message.Whole
	switch {
	case errors.Is(err, ledger.ErrStale):
		sawLate := !s.fresh && late(s.known.Recipients[s.unit.Position], s.unit)
		if !one || !m.outdated(s.unit) && !sawLate {
			t.Errorf("%+v is refused as stale", s.unit)
		}
	case errors.Is(err, ledger.ErrClaimed):
		if s.fresh && !m.blocked(s.unit) {
			t.Errorf("%+v is refused as claimed", s.unit)
		}
		for _, w := range m.workers {
			w.unsure = w.unsure || w.claim.Unit.Position == s.unit.Position && !m.live(w)
		}
	case err != nil:
		t.Fatal(err)
	default:
		m.grant(t, c, s)
	}
	m.stir()
}

// grant checks that a claim could be granted, and records it.
func (m *reference) grant(t *rapid.T, c ledger.Claim, s sight) {
	u := c.Unit
	r, recorded := m.claimed(s)
	w := &worker{claim: c, at: map[int]bool{}}
	if u.Position == message.Whole {
		for p := range modelTargets {
			_, known := c.Known.Recipients[p]
			w.at[p] = !known
		}
	} else {
		if late(r, u) {
			t.Errorf("%+v is granted, but out of date", u)
		}
		w.at[u.Position] = true
	}
	for _, other := range m.workers {
		if other.claim.Unit.Position == u.Position {
			if m.live(other) {
				t.Errorf("%+v is granted twice", u)
			}
			other.lost = true
		}
		for p := range modelTargets {
			if w.at[p] && other.at[p] && m.live(other) {
				t.Errorf("two workers are at position %d", p)
			}
		}
	}
	m.workers = append(m.workers, w)
	if u.Position == message.Whole {
		for p := range modelTargets {
			if r, ok := m.recipient(p); ok && w.at[p] && r.State == activity.Delivered {
				t.Errorf("position %d would be sent again", p)
			}
		}
		return
	}
	o := &ownAccount{generation: u.Generation}
	if recorded {
		if revives(r, u) {
			r.State, r.Attempts = activity.Retrying, 0
		}
		r.Generation = u.Generation
		o.recorded = &r
	}
	m.own[u.Position] = o
}

var modelStates = []activity.State{activity.Retrying, activity.Parked, activity.Delivered, activity.Failed, activity.Dead}

func (m *reference) record(t *rapid.T) {
	if len(m.workers) == 0 {
		t.Skip("nobody has a claim")
	}
	w := m.workers[rapid.IntRange(0, len(m.workers)-1).Draw(t, "worker")]
	u := w.claim.Unit
	done := rapid.Bool().Draw(t, "done")
	var rs []ledger.Recipient
	for _, p := range slices.Sorted(maps.Keys(w.at)) {
		if w.at[p] && rapid.Bool().Draw(t, fmt.Sprint("record ", p)) {
			g := u.Generation + rapid.IntRange(0, 1).Draw(t, "next generation")
			rs = append(rs, m.outcomeOf(p, rapid.SampledFrom(modelStates).Draw(t, "state"), g))
		}
	}
	err := m.Record(m.ctx, &w.claim, rs, done)
	switch {
	case errors.Is(err, ledger.ErrClaimed):
		if !w.lost && !w.unsure {
			t.Errorf("%q has its claim on %+v and may not record", w.claim.Owner, u)
		}
		w.lost = true
		return
	case err != nil:
		t.Fatal(err)
	case w.lost && !w.unsure:
		t.Errorf("%q has lost its claim on %+v and records", w.claim.Owner, u)
	}
	for _, r := range rs {
		if u.Position == message.Whole {
			m.chunk[r.Position] = r
			w.at[r.Position] = false // its own message takes over
		} else {
			m.own[r.Position] = &ownAccount{&r, u.Generation}
			w.at[r.Position] = !r.State.Final()
		}
	}
	w.lost = done
	m.stir()
}

// die makes parked deliveries die, unclaimed.
func (m *reference) die(t *rapid.T) {
	u := m.one(rapid.IntRange(0, modelTargets-1).Draw(t, "position"), rapid.SampledFrom(generations).Draw(t, "generation"))
	r := m.outcomeOf(u.Position, activity.Dead, u.Generation)
	old, recorded := m.recipient(u.Position)
	want := !m.outdated(u) && !m.blocked(u)
	stands := want || recorded && old.State == activity.Dead && old.Generation == u.Generation
	put, err := m.PutRecipients(m.ctx, m.id, []ledger.Recipient{r}, m.in(time.Hour))
	m.must(err)
	if (len(put) == 1) != stands {
		t.Errorf("generation %d of %+v is put: %v", u.Generation, old, put)
	}
	if want {
		m.own[u.Position] = &ownAccount{&r, u.Generation}
		for _, w := range m.workers {
			w.lost = w.lost || w.claim.Unit.Position == u.Position
		}
	}
	m.stir()
}

func (m *reference) wait(t *rapid.T) {
	m.advance(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second)
	m.stir()
}

// check compares what the ledger shows of every position.
func (m *reference) check(t *rapid.T) {
	shown := m.inspect(m.work.chunk()).Recipients
	for p := range modelTargets {
		want, recorded := m.recipient(p)
		got, ok := shown[p]
		if ok != recorded || got.State != want.State || got.Generation != want.Generation || got.Attempts != want.Attempts ||
			got.Own != (m.own[p] != nil) || !got.UpdatedAt.Equal(want.UpdatedAt) {
			t.Errorf("position %d is shown as %+v (%v), want %+v (%v)", p, got, ok, want, recorded)
		}
	}
}
