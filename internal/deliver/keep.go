package deliver

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"fedpost/internal/deliver/intake"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
)

// keeper keeps outcomes that cannot be recorded because the table cannot be written: its disk
// is full, or it is unreachable. A lost outcome would lead to a second send. Nothing new begins
// meanwhile.
type keeper struct {
	writable func(context.Context) error // nil: nothing is kept
	log      *slog.Logger

	mu    sync.Mutex
	units map[message.Unit]bool
	waits int           // who waits until the table can be written
	again chan struct{} // closed when the table can be written; nil: nobody asks
	away  bool          // the last try to write has failed

	ctx context.Context // over when the process is about to end
	end context.CancelFunc
}

func newKeeper(writable func(context.Context) error, log *slog.Logger) *keeper {
	k := &keeper{writable: writable, log: log, units: map[message.Unit]bool{}}
	k.ctx, k.end = context.WithCancel(context.Background())
	return k
}

const (
	// keptPause is the time between a failed write and the next.
	keptPause = time.Second
	keptTry   = 15 * time.Second
	// keptTries bounds the tries of a unit that fails while the table can be written, with
	// growing pauses: then the fault is the unit's.
	keptTries = 3
	// keptRenewal is the interval at which the message and the claim of a kept unit are
	// renewed, and keptFor for how long.
	keptRenewal = time.Minute
	keptFor     = 5 * time.Minute
	// keptReserve is what is left of an invocation for handing its messages back, and
	// answerReserve what is left of that for its answer.
	keptReserve   = 2 * time.Second
	answerReserve = 500 * time.Millisecond
)

// has reports whether u is kept: its message must not be worked on.
func (k *keeper) has(u message.Unit) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.units[u]
}

// closed reports whether nothing new may begin.
func (k *keeper) closed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.away
}

func (k *keeper) keep(u message.Unit) (release func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.units[u] = true
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.units, u)
	}
}

// await waits until the table can be written, for at most longest, and reports whether it can.
// One goroutine probes for all.
func (k *keeper) await(ctx context.Context, longest time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	k.mu.Lock()
	k.waits++
	if k.again == nil {
		k.again = make(chan struct{})
		go k.probe()
	}
	again := k.again
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.waits--
	}()
	select {
	case <-again:
		return true
	case <-ctx.Done():
		return false
	}
}

// probe tries to write until that succeeds, or nothing is kept any more and nobody waits.
func (k *keeper) probe() {
	for k.tries() {
		time.Sleep(keptPause)
	}
}

func (k *keeper) tries() bool {
	ctx, cancel := context.WithTimeout(context.Background(), keptTry)
	defer cancel()
	err := k.writable(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.away
	if k.away = err != nil && len(k.units)+k.waits > 0; !k.away {
		close(k.again)
		k.again = nil
	}
	switch {
	case k.away && !was:
		k.log.ErrorContext(ctx, "outcomes cannot be recorded: they are kept, and nothing new is begun", "kept", len(k.units), "error", err)
	case was && !k.away:
		k.log.WarnContext(ctx, "outcomes can be recorded again", "kept", len(k.units))
	}
	return k.away
}

// Ready waits while outcomes cannot be recorded. Receivers of messages call it first.
func (e *Engine) Ready(ctx context.Context) {
	for e.kept.closed() && ctx.Err() == nil {
		e.kept.await(ctx, keptRenewal)
	}
}

// Stop says that the process is about to end: what waits for a queue to take a message back goes
// on. Outcomes that cannot be recorded are kept until the end.
func (e *Engine) Stop() { e.kept.end() }

// step is a write to which the verdicts about a unit lead.
type step = func(context.Context, *unit) error

// insist takes steps that do not depend on each other, and repeats failed ones while the table
// cannot be written; on Lambda not longer than the invocation.
func (x executor) insist(ctx context.Context, u *unit, steps ...step) error {
	steps, err := taken(ctx, u, steps)
	if err == nil || x.kept.writable == nil {
		return err
	}
	defer x.kept.keep(u.id)()
	ctx = x.lasting(ctx)
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-keptReserve))
		defer cancel()
	}
	renewed := time.Now()
	for fails := 0; err != nil && !errors.Is(err, ledger.ErrClaimed); {
		writable := x.kept.await(ctx, keptRenewal)
		if time.Since(renewed) >= keptRenewal {
			renewed = time.Now()
			x.renew(ctx, u)
		}
		if !writable && ctx.Err() == nil {
			continue
		}
		noRoom := errors.Is(err, table.ErrDiskFull) || errors.Is(err, table.ErrReadOnly)
		if fails > keptTries && !noRoom || !pause(ctx, time.Duration(min(fails, keptTries))*keptPause) {
			return err
		}
		fails++
		try, done := context.WithTimeout(ctx, keptTry)
		steps, err = taken(try, u, steps)
		done()
	}
	return err
}

func taken(ctx context.Context, u *unit, steps []step) (failed []step, err error) {
	for _, s := range steps {
		if e := s(ctx, u); e != nil {
			failed, err = append(failed, s), errors.Join(err, e)
		}
	}
	return failed, err
}

// renew extends the visibility timeout of a kept unit's message, and its claim. Errors wait for
// the next renewal.
func (x executor) renew(ctx context.Context, u *unit) {
	ctx, cancel := context.WithTimeout(ctx, keptTry)
	defer cancel()
	hidden := x.intake.Queues(x.from).ChangeVisibility(ctx, u.Received.Handle, keptFor)
	c := u.claim
	c.Until = x.Now().Add(keptFor)
	claimed := x.Ledger.Record(ctx, &c, nil, false)
	if claimed == nil {
		u.claim.Known = c.Known // the journal reads Until meanwhile
	}
	if err := errors.Join(hidden, claimed); err != nil {
		x.Log.DebugContext(ctx, "the message or claim of a kept unit could not be renewed", "activity", u.a.ID, "chunk", u.d.Chunk, "error", err)
	}
}

// inspect reads a unit. If another process's claim has lapsed, the table may have been
// unreachable, and that process be about to record what it has kept: inspect waits and reads
// again.
func (v *invocation) inspect(ctx context.Context, u message.Unit) (ledger.Known, error) {
	known, err := v.Ledger.Inspect(ctx, u)
	if err != nil || !known.Lapsed || v.Worker != "" || v.Limits.Quiet == 0 || !pause(ctx, 10*keptPause) {
		return known, err
	}
	return v.Ledger.Inspect(ctx, u)
}

// lasting is ctx without the end of its invocation, which kept outcomes outlast in a process
// that lives on.
func (e *Engine) lasting(ctx context.Context) context.Context {
	if e.Limits.Quiet > 0 {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// closing is ctx for what ends an invocation. On Lambda it leaves time for the answer: without
// one, all messages come back.
func (e *Engine) closing(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx = e.lasting(ctx)
	if end, ok := ctx.Deadline(); ok {
		return context.WithDeadline(ctx, end.Add(-answerReserve))
	}
	return context.WithTimeout(ctx, 2*keptTry)
}

// handBack hands a message back to its queue. Where queue and table are away together, a process
// that lives on tries again when the table is back: the message would stay hidden for its whole
// visibility timeout. It is tried for about as long as that lasts, but not when the process is
// about to end.
func (e *Engine) handBack(ctx context.Context, from queue.Name, m queue.Received, d intake.Disposition) {
	until := time.Now().Add(keptFor)
	for tries := 0; ; tries++ {
		once, cancel := e.closing(ctx)
		done := e.intake.HandBack(once, from, m, d)
		cancel()
		if done || e.Limits.Quiet == 0 || e.kept.writable == nil || !e.kept.pausedUntil(until, tries) {
			return
		}
	}
}

// pausedUntil waits before the next of a number of tries until the table can be written, and for
// the try's pause. It reports whether both came before a time and before the process is about to
// end.
func (k *keeper) pausedUntil(until time.Time, tries int) bool {
	ctx, cancel := context.WithDeadline(k.ctx, until)
	defer cancel()
	return k.await(ctx, keptFor) && pause(ctx, time.Duration(tries+1)*keptPause)
}

// pause waits, and reports whether ctx is not over.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
