package simulation

import (
	"context"
	"regexp"
	"slices"

	"fedpost/internal/engine/table"
)

// What a delivery costs at most at servers that accept everything, whether an operator limits their
// rate or not, and however many wait: receives of its messages, and writes of items of its own. The
// fan-out and the record of its activity come on top, once.
const (
	limitedReceives = 3
	limitedWrites   = 4
	// What an ordered delivery costs more if a worker and the scheduled run release it at the same
	// time: its slot is written, and each of its two messages is received before that slot and at
	// it.
	twiceReceives = 2
	twiceWrites   = 1
	// The fan-out of an ordered activity to several inboxes plans each of its deliveries.
	planWrites = 1
	// What a delivery costs more that goes back twice for want of a place: a claim and a record each
	// time.
	crowdedWrites = 4
)

// checkLimited checks these budgets for a post that waited for nothing but limits.
func (s *sim) checkLimited(p *posted) {
	if s.disorder() > 0 || s.revived() || len(p.ids) != 1 || p.tries != 1 || p.Batch != 0 || p.Subject != "" {
		return
	}
	for _, r := range p.Recipients {
		if !s.onlyLimited(r.Server) {
			return
		}
	}
	n := len(p.Recipients)
	receives, writes := limitedReceives*n+2, limitedWrites*n+3
	if p.Ordering != "" {
		receives, writes = receives+twiceReceives*n, writes+twiceWrites*n
		if n > 1 {
			writes += planWrites * n
		}
	}
	if s.scenario.crowded() {
		writes += crowdedWrites * n
	}
	if p.Delay > 0 {
		// Each process whose scheduled run finds a delayed activity at the same moment deletes its
		// task.
		for _, process := range s.scenario.Processes {
			if process.Schedule {
				writes++
			}
		}
	}
	if p.receives > receives {
		s.fail("receives", "post %d to %d inboxes of servers that take everything was received %d times (at most %d)", p.N, n, p.receives, receives)
	}
	if got := s.book.written[string(p.ids[0])]; got > writes {
		s.fail("writes", "post %d to %d inboxes of servers that take everything cost %d writes (at most %d)", p.N, n, got, writes)
	}
}

// onlyLimited reports whether a server accepts everything, and operators do no more than limit its
// rate.
func (s *sim) onlyLimited(host string) bool {
	v := s.servers[host]
	if len(v.Phases)+len(v.Inboxes) > 0 || v.Strict || v.Rate > 0 {
		return false
	}
	return !slices.ContainsFunc(s.scenario.Acts, func(a Act) bool { return a.Host == host && a.Do != Limit })
}

func (s *sim) revived() bool { return s.book.revived() }

// billed is a table whose writes are counted for the activities that they are about.
type billed struct {
	table.Table
	book *book
}

var inKey = regexp.MustCompile(`[0-9A-HJKMNP-TV-Z]{26}`)

func (t billed) bill(k table.Key) {
	id := inKey.FindString(k.PK)
	if id == "" {
		id = inKey.FindString(k.SK)
	}
	t.book.written[id]++
}

// Put implements table.Table.
func (t billed) Put(ctx context.Context, it table.Item, cond table.Cond) error {
	t.bill(it.Key)
	return t.Table.Put(ctx, it, cond)
}

// Delete implements table.Table.
func (t billed) Delete(ctx context.Context, k table.Key, cond table.Cond) error {
	t.bill(k)
	return t.Table.Delete(ctx, k, cond)
}

// PutAll implements table.Table.
func (t billed) PutAll(ctx context.Context, items []table.Item) error {
	for _, it := range items {
		t.bill(it.Key)
	}
	return t.Table.PutAll(ctx, items)
}

// DeleteAll implements table.Table.
func (t billed) DeleteAll(ctx context.Context, keys []table.Key) error {
	for _, k := range keys {
		t.bill(k)
	}
	return t.Table.DeleteAll(ctx, keys)
}

// Transact implements table.Table.
func (t billed) Transact(ctx context.Context, ops []table.Op) error {
	for _, op := range ops {
		switch {
		case op.Put != nil:
			t.bill(op.Put.Key)
		case op.Delete != nil:
			t.bill(*op.Delete)
		}
	}
	return t.Table.Transact(ctx, ops)
}
