package events

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"
)

// Bell wakes readers of this process when this process has written events. Events of other
// processes do not ring it, so readers poll, too. A nil Bell never rings.
type Bell struct {
	mu      sync.Mutex
	next    chan struct{}
	stopped bool
	told    map[Kind]int64
}

// Told counts events that this process has written, and wakes all readers.
func (b *Bell) Told(es []Event) {
	if b == nil {
		return
	}
	b.mu.Lock()
	if b.told == nil {
		b.told = map[Kind]int64{}
	}
	for _, e := range es {
		b.told[e.Kind]++
	}
	b.mu.Unlock()
	b.Ring()
}

// Counts returns how many events of each kind this process has written. An event whose write
// was repeated because its answer was lost may be missing.
func (b *Bell) Counts() map[Kind]int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.told)
}

// Stop ends all waiting for good, because the process ends.
func (b *Bell) Stop() {
	b.mu.Lock()
	b.stopped = true
	b.mu.Unlock()
	b.Ring()
}

// Stopped reports whether Stop was called.
func (b *Bell) Stopped() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stopped
}

// Ring wakes all readers.
func (b *Bell) Ring() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}

// Next returns a channel that is closed at the next ring. Call it before reading the feed.
func (b *Bell) Next() <-chan struct{} {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

// together is how long OnRing waits for further rings, so that many events are read at once.
const together = 200 * time.Millisecond

// OnRing calls f after each ring until ctx ends. A failure is logged: the schedule or the next
// ring calls f again.
func OnRing(ctx context.Context, b *Bell, log *slog.Logger, f func(context.Context) error) {
	ring := b.Next()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ring:
		}
		pause := time.NewTimer(together)
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
		ring = b.Next() // before f looks, which then misses nothing
		if err := f(ctx); err != nil && ctx.Err() == nil {
			log.WarnContext(ctx, "events could not be passed on at once", "error", err)
		}
	}
}
