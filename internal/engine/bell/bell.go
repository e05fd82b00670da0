// Package bell wakes the receivers of an engine that wait for messages, within one process.
// It knows no engine: both engines with receivers of their own, SQLite and PostgreSQL, ring
// it when messages arrive.
package bell

import (
	"container/list"
	"sync"

	"fedpost/internal/engine/queue"
)

// Bell wakes the receivers that wait for a queue: as many as it takes for the messages that
// arrive, because each receiver that wakes reads the queue. A receiver that is awake and has
// not read yet takes what arrives meanwhile, up to the most that it wants. A receiver that
// has got that many rings for another, as there may be more.
//
// The receiver that has waited for longest is the watch: only its sleep ends when the next
// hidden message becomes visible. Messages that arrive wake the others first. When the
// watch leaves, the next receiver is woken to take its place.
type Bell struct {
	mu    sync.Mutex
	lines map[queue.Name]*list.List // of *Waiter, the watch in front
}

// Waiter is a receiver in the line of a queue, from before it first reads the queue until it
// leaves. A ring that comes after it has read makes it read again.
type Waiter struct {
	line  *list.List
	place *list.Element
	max   int // messages that it takes at a time
	// awake: it is going to read the queue. expected is how many messages it was rung for
	// since it last read.
	awake    bool
	expected int
	rung     chan struct{} // ends its sleep
}

// Rung is ready when w has to read the queue again.
func (w *Waiter) Rung() <-chan struct{} { return w.rung }

// New returns a bell that nobody waits for.
func New() *Bell { return &Bell{lines: make(map[queue.Name]*list.List)} }

// Join puts a receiver that takes up to limit messages at the end of a queue's line. Call Join
// before reading the queue, so that a message that arrives in between rings, and leave in
// the end.
func (b *Bell) Join(n queue.Name, limit int) *Waiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	line := b.lines[n]
	if line == nil {
		line = list.New()
		b.lines[n] = line
	}
	w := &Waiter{line: line, max: limit, awake: true, rung: make(chan struct{}, 1)}
	w.place = line.PushBack(w)
	return w
}

// Reads says that a receiver reads the queue now, and so sees all that was rung for.
func (b *Bell) Reads(w *Waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.awake, w.expected = false, 0
	select {
	case <-w.rung:
	default:
	}
}

// Leave takes a receiver out of its line. What it was rung for since it last read is left to
// others.
func (b *Bell) Leave(w *Waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	watch := w.line.Front() == w.place
	w.line.Remove(w.place)
	if watch {
		wakeWatch(w.line)
	}
	wake(w.line, w.expected)
}

// Watches reports whether w has to watch the time.
func (b *Bell) Watches(w *Waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return w.line.Front() == w.place
}

// Ring says that messages arrived on a queue, and returns for how many of them no receiver
// of this process was woken.
func (b *Bell) Ring(n queue.Name, messages int) (left int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if line := b.lines[n]; line != nil {
		return wake(line, messages)
	}
	return messages
}

// Shift says that messages become visible at another time than before.
func (b *Bell) Shift(n queue.Name) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if line := b.lines[n]; line != nil {
		wakeWatch(line)
	}
}

// wake leaves n messages to waiters that are awake, then to others, the latest first. The
// remaining messages, which it returns, are for receivers that do not wait: whoever comes back
// reads.
func wake(line *list.List, n int) int {
	for _, awake := range []bool{true, false} {
		for el := line.Back(); el != nil && n > 0; el = el.Prev() {
			if w := el.Value.(*Waiter); w.awake == awake && w.expected < w.max {
				some := min(n, w.max-w.expected)
				w.expected += some
				n -= some
				w.wake()
			}
		}
	}
	return n
}

func (w *Waiter) wake() {
	if w.awake {
		return
	}
	w.awake = true
	select {
	case w.rung <- struct{}{}:
	default:
	}
}

func wakeWatch(line *list.List) {
	if first := line.Front(); first != nil {
		first.Value.(*Waiter).wake()
	}
}
