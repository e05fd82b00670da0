package deliver

import (
	"context"
	"errors"
	"sync"
	"time"

	"fedpost/internal/deliver/intake"
	"fedpost/internal/deliver/verdict"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
)

// journal stores final outcomes whose unit is not recorded yet, because it waits for slower
// servers, a queue or a table. Each outcome is in the journal within Limits.Flush of its
// answer, in one write for all units of the invocation. A record is one write per unit, so with
// slow servers most of the cost would be records of a few outcomes.
type journal struct {
	*Engine
	from queue.Name
	ctx  context.Context
	name string

	// writing is held during a write; add never waits for it. It is a channel and no mutex,
	// because testing/synctest counts only waits for channels as idle.
	writing   chan struct{}
	written   int
	journaled map[*unit]map[int]bool // by position

	mu      sync.Mutex
	waiting map[*unit][]ledger.Recipient
	timer   *time.Timer // nil: nothing waits
}

// newJournal returns the journal of an invocation. Its name is the receipt of the first
// message, which is unique.
func (e *Engine) newJournal(ctx context.Context, from queue.Name, batch []queue.Received) *journal {
	name := ""
	if len(batch) > 0 {
		name = e.Worker + intake.Receipt(batch[0])
	}
	return &journal{
		Engine: e, from: from, ctx: ctx, name: name, writing: make(chan struct{}, 1),
		journaled: map[*unit]map[int]bool{}, waiting: map[*unit][]ledger.Recipient{},
	}
}

// add adds the outcome of j, if only its record is missing.
func (n *journal) add(u *unit, j *job) {
	switch j.verdict.(type) {
	case verdict.Delivered, verdict.Refused, verdict.Redundant, verdict.Superseded:
	default:
		return // its effects come before its record
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting[u] = append(n.waiting[u], u.recipient(j, n.Now()))
	if n.timer == nil {
		n.timer = time.AfterFunc(n.Limits.Flush-time.Since(j.answered), n.writeWaiting)
	}
}

func (n *journal) writeWaiting() {
	ctx, cancel := n.ctx, context.CancelFunc(func() {})
	if end, ok := ctx.Deadline(); ok {
		ctx, cancel = context.WithDeadline(ctx, end.Add(-answerReserve))
	}
	defer cancel()
	n.write(ctx)
}

// write writes all waiting outcomes. After an error they stay waiting.
func (n *journal) write(ctx context.Context) {
	n.writing <- struct{}{}
	defer func() { <-n.writing }()
	n.mu.Lock()
	waiting := n.waiting
	n.waiting = map[*unit][]ledger.Recipient{}
	n.timer = nil
	n.mu.Unlock()
	if len(waiting) == 0 {
		return
	}
	entries := make([]ledger.JournalEntry, 0, len(waiting))
	for u, rs := range waiting {
		entries = append(entries, ledger.JournalEntry{Unit: u.id, Recipients: rs, Forget: u.known.Record.Forget})
	}
	err := repeated(ctx, func() error { return n.Ledger.WriteJournal(ctx, n.name, n.written, entries) })
	if err != nil {
		if !n.kept.closed() { // else that is logged once for all
			n.Log.WarnContext(ctx, "outcomes could not be written to the journal while others are awaited", "queue", n.from, "error", err)
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		for u, rs := range waiting {
			n.waiting[u] = append(rs, n.waiting[u]...)
		}
		if n.timer == nil && n.ctx.Err() == nil {
			n.timer = time.AfterFunc(n.Limits.Flush, n.writeWaiting)
		}
		return
	}
	n.written++
	now := n.Now()
	for u, rs := range waiting {
		if !now.Before(u.claim.Until) {
			// Another worker may have begun without these outcomes, and counts them itself.
			continue
		}
		if n.journaled[u] == nil {
			n.journaled[u] = map[int]bool{}
		}
		for _, r := range rs {
			n.journaled[u][r.Position] = true
		}
		n.Meter.Recorded(rs)
	}
}

// end drops a recorded unit. It returns the positions that are in the journal, and so counted.
func (n *journal) end(u *unit) (counted map[int]bool) {
	n.writing <- struct{}{}
	defer func() { <-n.writing }()
	n.mu.Lock()
	defer n.mu.Unlock()
	counted = n.journaled[u]
	delete(n.journaled, u)
	delete(n.waiting, u)
	return counted
}

// close writes the outcomes of units that could not be recorded.
func (n *journal) close(ctx context.Context) {
	ctx, cancel := n.closing(ctx)
	defer cancel()
	n.write(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.timer != nil {
		n.timer.Stop()
	}
}

// recordTries bounds the tries of a record. Each failure widens the gap in which a crash leads
// to a second send.
const recordTries = 3

func repeated(ctx context.Context, write func() error) error {
	for try := 1; ; try++ {
		err := write()
		if err == nil || errors.Is(err, ledger.ErrClaimed) || ctx.Err() != nil || try == recordTries {
			return err
		}
	}
}
