package deliver

import (
	"context"
	"log/slog"
	"sync"
	"time"

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
	waits int           // callers that wait until the table can be written
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

// pausedUntil waits until the table can be written, and then for a pause that grows with tries. It
// returns false if that takes until a given time, or if the process is about to end.
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
