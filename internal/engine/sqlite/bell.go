package sqlite

import (
	"container/list"
	"sync"

	"fedpost/internal/engine/queue"
)

// bell wakes the receivers that wait for a queue: one for each message that arrives, because
// each receiver that wakes reads the queue.
//
// The receiver that has waited for longest is the watch: only its sleep ends when the next
// hidden message becomes visible. Messages that arrive wake the others first. When the
// watch leaves, the next receiver is woken to take its place.
type bell struct {
	mu    sync.Mutex
	lines map[queue.Name]*list.List // of *waiter, the watch in front
}

// waiter is a receiver in the line of a queue, from before it first reads the queue until it
// leaves. A ring that comes while it reads makes it read again.
type waiter struct {
	line  *list.List
	place *list.Element
	// rung holds at most one ring that the waiter has not acted on.
	rung chan struct{}
}

func newBell() *bell { return &bell{lines: make(map[queue.Name]*list.List)} }

// join puts a receiver at the end of a queue's line. Call join before reading the queue,
// so that a message that arrives in between rings, and leave in the end.
func (b *bell) join(n queue.Name) *waiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	line := b.lines[n]
	if line == nil {
		line = list.New()
		b.lines[n] = line
	}
	w := &waiter{line: line, rung: make(chan struct{}, 1)}
	w.place = line.PushBack(w)
	return w
}

// leave takes a receiver out of its line. A ring that the receiver has not acted on goes to
// another one, which may have been left a message.
func (b *bell) leave(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	watch := w.line.Front() == w.place
	w.line.Remove(w.place)
	if watch {
		wakeWatch(w.line)
	}
	select {
	case <-w.rung:
		wake(w.line, 1)
	default:
	}
}

// watches reports whether w has to watch the time.
func (b *bell) watches(w *waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return w.line.Front() == w.place
}

// ring says that messages arrived on a queue.
func (b *bell) ring(n queue.Name, messages int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if line := b.lines[n]; line != nil {
		wake(line, messages)
	}
}

// shift says that messages become visible at another time than before.
func (b *bell) shift(n queue.Name) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if line := b.lines[n]; line != nil {
		wakeWatch(line)
	}
}

// wake rings for n waiters that have not been rung for, the latest first. The others act on
// their ring later than this, so they will see the messages, too.
func wake(line *list.List, n int) {
	for el := line.Back(); el != nil && n > 0; el = el.Prev() {
		select {
		case el.Value.(*waiter).rung <- struct{}{}:
			n--
		default:
		}
	}
}

func wakeWatch(line *list.List) {
	if first := line.Front(); first != nil {
		select {
		case first.Value.(*waiter).rung <- struct{}{}:
		default:
		}
	}
}
