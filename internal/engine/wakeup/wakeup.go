// Package wakeup wakes the receivers of an engine that wait for messages, within one process, or
// has the engine make their receives together with a send. The SQLite and PostgreSQL engines
// notify it when messages arrive.
package wakeup

import (
	"container/list"
	"sync"
	"time"

	"fedpost/internal/engine/queue"
)

// Notifier wakes the receivers that wait for a queue: as many as the arriving messages need, because
// each receiver that wakes reads the queue. A receiver that is awake and has not read yet also
// takes what arrives meanwhile, up to its limit. A receiver that got as many messages as its
// limit wakes another one, because there may be more. So a receiver that comes while others wait has
// nothing to read, unless messages arrived for which nobody could be woken.
//
// The receiver that has waited for longest is the leader: only the leader wakes when the
// next hidden message becomes visible, or when a message is hidden for a shorter time than that.
// Messages that arrive wake the others first. When the leader leaves, the next receiver is woken and
// becomes the leader.
type Notifier struct {
	mu     sync.Mutex
	queues map[queue.Name]*receivers
}

// receivers are those of one queue.
type receivers struct {
	waiters list.List // of *Waiter, the leader in front
	unread  bool      // messages arrived for which nobody was woken, and nobody has read since
}

// Waiter is a receiver of a queue, from Join to Leave. If it is woken after it has read the queue, it
// reads again.
type Waiter struct {
	of      *receivers
	element *list.Element // in receivers.waiters
	max     int           // messages that it takes at a time
	// awake: it is going to read the queue. expected is how many messages it was woken for
	// since it last read.
	awake    bool
	expected int
	woken    chan struct{} // ends its sleep
	until    time.Time     // when the leader's sleep ends; zero: not known yet
	parked   Parked        // what it takes next, if it sleeps
	given    bool          // parked was given to a send
}

// Woken is ready when w has to read the queue again.
func (w *Waiter) Woken() <-chan struct{} { return w.woken }

// New returns a notifier that nobody waits for.
func New() *Notifier { return &Notifier{queues: make(map[queue.Name]*receivers)} }

func (n *Notifier) of(name queue.Name) *receivers {
	if n.queues[name] == nil {
		n.queues[name] = new(receivers)
	}
	return n.queues[name]
}

// Join adds a receiver that takes up to limit messages. Call Join before reading the queue, so
// that a message that arrives in between wakes it, and Leave at the end.
func (n *Notifier) Join(name queue.Name, limit int) *Waiter {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.of(name)
	w := &Waiter{of: l, max: limit, awake: l.unread || l.waiters.Len() == 0, woken: make(chan struct{}, 1)}
	w.element = l.waiters.PushBack(w)
	return w
}

// Reads says that a receiver reads the queue now, and so sees all that it was woken for.
func (n *Notifier) Reads(w *Waiter) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w.awake, w.expected, w.of.unread = false, 0, false
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
	leader := w.of.waiters.Front() == w.element
	w.of.waiters.Remove(w.element)
	if leader {
		w.of.wakeLeader()
	}
	w.of.wake(w.expected)
}

// Leads reports whether w is the leader.
func (n *Notifier) Leads(w *Waiter) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return w.of.waiters.Front() == w.element
}

// Wake says that messages arrived on a queue, and returns for how many of them no receiver
// of this process was woken.
func (n *Notifier) Wake(name queue.Name, messages int) (left int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.of(name).wake(messages)
}

// Shift says that a message becomes visible after a time. The leader reads the queue again if it
// would sleep for longer.
func (n *Notifier) Shift(name queue.Name, in time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if first := n.of(name).waiters.Front(); first != nil {
		if w := first.Value.(*Waiter); w.until.IsZero() || w.until.After(time.Now().Add(in)) {
			w.wake()
		}
	}
}

// park begins the sleep of w, and gives p to the next send. It returns false if w has to read.
func (n *Notifier) park(w *Waiter, p Parked) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !w.awake {
		w.parked, w.given, w.until = p, false, time.Time{}
	}
	return !w.awake
}

// sleeps says for how long the leader will sleep, if nothing wakes it.
func (n *Notifier) sleeps(w *Waiter, left time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w.until = time.Now().Add(left)
}

// withdraw ends what park began, unless a send has got it.
func (n *Notifier) withdraw(w *Waiter) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	w.parked = nil
	return !w.given
}

// Unpark returns the receives that an engine has to make at the end of a transaction that sends
// messages, and for how many of the messages no receiver sleeps. Call it once for each queue, not
// for batches: they are parts of a large activity, too much of which would be in memory.
func (n *Notifier) Unpark(name queue.Name, messages int) (all []Parked, left int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for el := n.of(name).waiters.Back(); el != nil && messages > 0; el = el.Prev() {
		if w := el.Value.(*Waiter); w.parked != nil && !w.awake {
			w.awake, w.expected = true, min(messages, w.max)
			messages -= w.expected
			all, w.parked, w.given = append(all, w.parked), nil, true
		}
	}
	return all, messages
}

// wake assigns n messages to waiters that are awake, then to others, the latest first. It returns
// how many messages are left: receivers that do not wait read the queue when they come back.
func (l *receivers) wake(n int) int {
	for _, awake := range []bool{true, false} {
		for el := l.waiters.Back(); el != nil && n > 0; el = el.Prev() {
			if w := el.Value.(*Waiter); w.awake == awake && w.expected < w.max {
				some := min(n, w.max-w.expected)
				w.expected += some
				n -= some
				w.wake()
			}
		}
	}
	l.unread = l.unread || n > 0
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

func (l *receivers) wakeLeader() {
	if first := l.waiters.Front(); first != nil {
		first.Value.(*Waiter).wake()
	}
}
