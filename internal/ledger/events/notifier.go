package events

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"
)

// Notifier wakes readers of this process when this process has written events. Events of other
// processes do not notify it, so readers also poll. A nil Notifier never wakes anyone.
type Notifier struct {
	mu      sync.Mutex
	next    chan struct{}
	stopped bool
	counts  map[Kind]int64
}

// Appended counts events that this process has written, and wakes all readers.
func (n *Notifier) Appended(es []Event) {
	if n == nil {
		return
	}
	n.mu.Lock()
	if n.counts == nil {
		n.counts = map[Kind]int64{}
	}
	for _, e := range es {
		n.counts[e.Kind]++
	}
	n.mu.Unlock()
	n.Notify()
}

// Counts returns how many events of each kind this process has written. An event whose write
// was repeated because its answer was lost may be missing.
func (n *Notifier) Counts() map[Kind]int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.counts)
}

// Stop ends all waiting for good, because the process ends.
func (n *Notifier) Stop() {
	n.mu.Lock()
	n.stopped = true
	n.mu.Unlock()
	n.Notify()
}

// Stopped reports whether Stop was called.
func (n *Notifier) Stopped() bool {
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stopped
}

// Notify wakes all readers.
func (n *Notifier) Notify() {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next != nil {
		close(n.next)
		n.next = nil
	}
}

// Next returns a channel that is closed at the next Notify. Call it before reading the feed.
func (n *Notifier) Next() <-chan struct{} {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next == nil {
		n.next = make(chan struct{})
	}
	return n.next
}

// together is how long OnNotify waits for further events, so that many are read at once.
const together = 200 * time.Millisecond

// OnNotify calls f after each Notify until ctx ends. A failure is logged: the schedule or the
// next Notify calls f again.
func OnNotify(ctx context.Context, n *Notifier, log *slog.Logger, f func(context.Context) error) {
	next := n.Next()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(together):
		}
		next = n.Next() // before f reads, so that f misses nothing
		if err := f(ctx); err != nil && ctx.Err() == nil {
			log.WarnContext(ctx, "events could not be passed on at once", "error", err)
		}
	}
}
