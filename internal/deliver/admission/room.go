package admission

import (
	"cmp"
	"container/list"
	"slices"
	"time"

	"fedpost/internal/engine/queue"
)

// room is the memory for the recipients that wait.
type room struct {
	used   int
	idle   list.List     // of *Ticket: messages that wait for room, the first of their activity
	line   list.List     // the others; both in the order of their senders' turns
	turns  queue.Turns   // of senders
	turn   bool          // the next room is for one of idle
	looked time.Duration // in vain, for what can go back
	// since is when messages began to wait, with pauses of less than lookEvery, and last when
	// one began to wait last.
	since, last time.Duration
}

// Ticket is the part of that memory that the recipients of one message take. A nil ticket
// takes none.
type Ticket struct {
	activity string
	left     int // recipients
	got      chan struct{}
	due      time.Duration // its sender's turn
	line     *list.List    // of room, in which it waits
	at       *list.Element // there; nil: it waits no more
}

// waits reports whether messages wait for room.
func (r *room) waits() bool { return r.idle.Len()+r.line.Len() > 0 }

// take has n recipients of a message of a sender wait for room.
func (p *plan) take(activity, sender string, n int, now time.Duration) *Ticket {
	r, e := &p.room, p.errand(activity)
	t := &Ticket{activity: activity, left: n, got: make(chan struct{}), due: now - r.turns.Take(sender, now), line: &r.line}
	if e.tickets == 0 {
		t.line = &r.idle
	}
	e.tickets++
	before := t.line.Back()
	for before != nil && before.Value.(*Ticket).due > t.due {
		before = before.Prev()
	}
	if before == nil {
		t.at = t.line.PushFront(t)
	} else {
		t.at = t.line.InsertAfter(t, before)
	}
	if p.admit(); t.at != nil {
		if now-r.last > lookEvery {
			r.since = now
		}
		r.last = now
		p.advance(now)
	}
	return t
}

// admit gives room to messages that wait.
func (p *plan) admit() {
	r := &p.room
	for {
		next := &r.line
		if r.turn && r.idle.Len() > 0 || r.line.Len() == 0 || r.used >= p.b.Waiting {
			next = &r.idle
		}
		if next.Len() == 0 || r.used >= p.b.Waiting+p.b.Waiting/4 {
			return
		}
		t := next.Remove(next.Front()).(*Ticket)
		t.at = nil
		r.turn = !r.turn
		r.used += t.left
		p.granted = append(p.granted, t.got)
	}
}

// pass says that n recipients do not wait any more.
func (p *plan) pass(t *Ticket, n int) {
	if n = min(n, t.left); n == 0 {
		return
	}
	t.left -= n
	p.room.used -= n
	p.leaveRoom(t)
	p.admit()
}

// leaveRoom notes that nothing of a message waits if that is so.
func (p *plan) leaveRoom(t *Ticket) {
	if t.left == 0 {
		p.errand(t.activity).tickets--
		p.settle(t.activity)
	}
}

// abandon ends a ticket: the wait of its message for room, or all that it takes.
func (p *plan) abandon(t *Ticket) {
	if t.at == nil {
		p.pass(t, t.left)
		return
	}
	t.line.Remove(t.at)
	t.at, t.left = nil, 0
	p.leaveRoom(t)
}

// relieve sends back, where messages wait for memory, what does not begin within a second: of
// those that wait at a full bound, all but as many as begin there in a second. It ends when a
// quarter of the memory is free, as looking takes time.
func (p *plan) relieve(now time.Duration) {
	r := &p.room
	if !r.waits() || now < r.looked+lookEvery || p.old == 0 && now-r.since < quick {
		return // until an attempt is old, all may be well
	}
	type waiter struct {
		*Attempt
		receives int
	}
	var all []waiter
	surplus := map[*bound]int{}
	for _, hosts := range p.waiting {
		for _, h := range hosts {
			for a := range h.attempts() {
				all = append(all, waiter{a, min(a.Receives, receives)})
				for _, b := range p.bounds(a) {
					if _, known := surplus[b]; !known {
						surplus[b] = p.surplus(h, b, now)
					}
				}
			}
		}
	}
	// Who has come more often stays; then who has held least, and of those who came first.
	slices.SortFunc(all, func(a, b waiter) int {
		g, h := a.host, b.host
		return cmp.Or(
			cmp.Compare(h.class, g.class), cmp.Compare(a.receives, b.receives), cmp.Compare(h.site.held, g.site.held),
			cmp.Compare(h.held, g.held), cmp.Compare(b.arrived, a.arrived),
		)
	})
	pressed := now-r.since > quick/4
	for _, a := range all {
		if r.used <= part(p.b.Waiting) {
			break
		}
		bs, binds := p.bounds(a.Attempt), p.binds(a.Attempt)
		shown := a.host.class == others && a.host.mean > 0
		late := a.inbox.old > 0 && a.inbox.under >= a.host.most(a.inbox, a.Attempt)
		for i, b := range bs {
			late = late || binds[i] && (pressed && shown || surplus[b] > 0)
		}
		if late {
			for _, b := range bs {
				surplus[b]--
			}
			p.sendBack(a.Attempt, now)
		}
	}
	if p.admit(); r.waits() {
		r.looked = now
	}
}
