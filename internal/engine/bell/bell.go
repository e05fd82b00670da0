// Package bell wakes the receivers of an engine that wait for messages, within one process.
// The SQLite and PostgreSQL engines ring it when messages arrive.
package bell

import (
	"container/list"
	"sync"

	"fedpost/internal/engine/queue"
)

// Bell wakes the receivers that wait for a queue: as many as the arriving messages need, because
// each receiver that wakes reads the queue. A receiver that is awake and has not read yet also
// takes what arrives meanwhile, up to its limit. A receiver that got as many messages as its
// limit rings for another one, because there may be more.
//
// The receiver that has waited for longest is the watch: only the watch wakes when the next
// hidden message becomes visible. Messages that arrive wake the others first. When the watch
// leaves, the next receiver is woken and becomes the watch.
type Bell struct {
	mu     sync.Mutex
	queues map[queue.Name]*list.List // of *Waiter, the watch in front
}

// Waiter is a receiver of a queue, from Join to Leave. A ring after it has read the queue makes it
// read again.
type Waiter struct {
	all   *list.List    // the waiters of its queue
	place *list.Element // in all
	max   int           // messages that it takes at a time
	// awake: it is going to read the queue. expected is how many messages it was rung for
	// since it last read.
	awake    bool
	expected int
	rung     chan struct{} // ends its sleep
}

// Rung is ready when w has to read the queue again.
func (w *Waiter) Rung() <-chan struct{} { return w.rung }

// New returns a bell that nobody waits for.
func New() *Bell { return &Bell{queues: make(map[queue.Name]*list.List)} }

// Join adds a receiver that takes up to limit messages. Call Join before reading the queue, so
// that a message that arrives in between rings, and Leave at the end.
func (b *Bell) Join(n queue.Name, limit int) *Waiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.queues[n]
	if all == nil {
		all = list.New()
		b.queues[n] = all
	}
	w := &Waiter{all: all, max: limit, awake: true, rung: make(chan struct{}, 1)}
	w.place = all.PushBack(w)
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

// Leave removes a receiver. Other receivers are woken for the messages that it was rung for
// since it last read.
func (b *Bell) Leave(w *Waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	watch := w.all.Front() == w.place
	w.all.Remove(w.place)
	if watch {
		wakeWatch(w.all)
	}
	wake(w.all, w.expected)
}

// Watches reports whether w is the watch.
func (b *Bell) Watches(w *Waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return w.all.Front() == w.place
}

// Ring says that messages arrived on a queue, and returns for how many of them no receiver
// of this process was woken.
func (b *Bell) Ring(n queue.Name, messages int) (left int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if all := b.queues[n]; all != nil {
		return wake(all, messages)
	}
	return messages
}

// Shift says that messages become visible at another time than before.
func (b *Bell) Shift(n queue.Name) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if all := b.queues[n]; all != nil {
		wakeWatch(all)
	}
}

// wake assigns n messages to waiters that are awake, then to others, the latest first. It returns
// how many messages are left: receivers that do not wait read the queue when they come back.
func wake(all *list.List, n int) int {
	for _, awake := range []bool{true, false} {
		for el := all.Back(); el != nil && n > 0; el = el.Prev() {
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

func wakeWatch(all *list.List) {
	if first := all.Front(); first != nil {
		first.Value.(*Waiter).wake()
	}
}
