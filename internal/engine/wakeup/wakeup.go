// Package wakeup wakes the receivers of an engine that wait for messages, within one process.
// The SQLite and PostgreSQL engines notify it when messages arrive.
package wakeup

import (
	"container/list"
	"sync"

	"fedpost/internal/engine/queue"
)

// Notifier wakes the receivers that wait for a queue: as many as the arriving messages need, because
// each receiver that wakes reads the queue. A receiver that is awake and has not read yet also
// takes what arrives meanwhile, up to its limit. A receiver that got as many messages as its
// limit wakes another one, because there may be more.
//
// The receiver that has waited for longest is the leader: only the leader wakes when the
// next hidden message becomes visible. Messages that arrive wake the others first. When the leader
// leaves, the next receiver is woken and becomes the leader.
type Notifier struct {
	mu     sync.Mutex
	queues map[queue.Name]*list.List // of *Waiter, the leader in front
}

// Waiter is a receiver of a queue, from Join to Leave. If it is woken after it has read the queue, it
// reads again.
type Waiter struct {
	all     *list.List    // the waiters of its queue
	element *list.Element // in all
	max     int           // messages that it takes at a time
	// awake: it is going to read the queue. expected is how many messages it was woken for
	// since it last read.
	awake    bool
	expected int
	woken    chan struct{} // ends its sleep
}

// Woken is ready when w has to read the queue again.
func (w *Waiter) Woken() <-chan struct{} { return w.woken }

// New returns a notifier that nobody waits for.
func New() *Notifier { return &Notifier{queues: make(map[queue.Name]*list.List)} }

// Join adds a receiver that takes up to limit messages. Call Join before reading the queue, so
// that a message that arrives in between wakes it, and Leave at the end.
func (n *Notifier) Join(name queue.Name, limit int) *Waiter {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.queues[name]
	if all == nil {
		all = list.New()
		n.queues[name] = all
	}
	w := &Waiter{all: all, max: limit, awake: true, woken: make(chan struct{}, 1)}
	w.element = all.PushBack(w)
	return w
}

// Reads says that a receiver reads the queue now, and so sees all that it was woken for.
func (n *Notifier) Reads(w *Waiter) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w.awake, w.expected = false, 0
	select {
	case <-w.woken:
	default:
	}
}

// Leave removes a receiver. Other receivers are woken for the messages that it was woken for
// since it last read.
func (n *Notifier) Leave(w *Waiter) {
	n.mu.Lock()
	defer n.mu.Unlock()
	leader := w.all.Front() == w.element
	w.all.Remove(w.element)
	if leader {
		wakeLeader(w.all)
	}
	wake(w.all, w.expected)
}

// Leads reports whether w is the leader.
func (n *Notifier) Leads(w *Waiter) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return w.all.Front() == w.element
}

// Wake says that messages arrived on a queue, and returns for how many of them no receiver
// of this process was woken.
func (n *Notifier) Wake(name queue.Name, messages int) (left int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if all := n.queues[name]; all != nil {
		return wake(all, messages)
	}
	return messages
}

// Shift says that messages become visible at another time than before.
func (n *Notifier) Shift(name queue.Name) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if all := n.queues[name]; all != nil {
		wakeLeader(all)
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
	case w.woken <- struct{}{}:
	default:
	}
}

func wakeLeader(all *list.List) {
	if first := all.Front(); first != nil {
		first.Value.(*Waiter).wake()
	}
}
