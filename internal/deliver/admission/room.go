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

	bytes   int            // of large messages in memory that wait for nothing or for room
	large   list.List      // of *Ticket: large messages that wait for bytes, in the order of their senders' turns
	queued  int            // bytes of those
	holders map[string]int // large messages that have bytes, by sender
}

// Ticket is the part of that memory that the recipients of one message take. A nil ticket
// takes none.
type Ticket struct {
	activity, sender string
	left             int // recipients
	bytes            int // of a large message
	holds            bool
	got              chan struct{}
	due              time.Duration // its sender's turn
	line             *list.List    // of room, in which it waits
	at               *list.Element // there; nil: it waits no more
}

// waits reports whether messages wait for room.
func (r *room) waits() bool { return r.idle.Len()+r.line.Len()+r.large.Len() > 0 }

// take has n recipients of a message of a sender wait for room. bytes is the size of a large
// message, which waits for these first; 0: it is a small one. It returns nil if too many large
// messages wait.
func (p *plan) take(activity, sender string, n, bytes int, now time.Duration) *Ticket {
	r := &p.room
	t := &Ticket{activity: activity, sender: sender, left: n, got: make(chan struct{}), due: now - r.turns.Take(sender, now)}
	if p.b.Bytes == 0 || bytes == 0 {
		p.enterRoom(t)
	} else {
		t.bytes = max(1, min(bytes, p.b.Bytes/2))
		t.wait(&r.large)
		r.queued += t.bytes
		if p.admitLarge(); t.line == &r.large && r.queued > max(p.b.Bytes/4, t.bytes) {
			p.abandon(t)
			return nil
		}
	}
	if t.at != nil {
		if now-r.last > lookEvery {
			r.since = now
		}
		r.last = now
		p.advance(now)
	}
	return t
}

// wait has a ticket wait in a line.
func (t *Ticket) wait(line *list.List) {
	t.line = line
	before := line.Back()
	for before != nil && before.Value.(*Ticket).due > t.due {
		before = before.Prev()
	}
	if before == nil {
		t.at = line.PushFront(t)
	} else {
		t.at = line.InsertAfter(t, before)
	}
}

// enterRoom has the recipients of a ticket wait for room. One without recipients needs none.
func (p *plan) enterRoom(t *Ticket) {
	if t.left == 0 {
		p.granted = append(p.granted, t.got)
		return
	}
	r, e := &p.room, p.errand(t.activity)
	e.tickets++
	if e.tickets == 1 {
		t.wait(&r.idle)
	} else {
		t.wait(&r.line)
	}
	p.admit()
}

// admitLarge gives bytes to large messages. A quarter more is for senders of whom no large
// message is in memory: whoever sends many to servers that hang holds up no other.
func (p *plan) admitLarge() {
	r := &p.room
	if r.holders == nil {
		r.holders = map[string]int{}
	}
	full := false
	for el := r.large.Front(); el != nil; {
		t, next := el.Value.(*Ticket), el.Next()
		most := p.b.Bytes
		if r.holders[t.sender] == 0 {
			most += p.b.Bytes / 4
		}
		switch fits := r.bytes+t.bytes <= most; {
		case !fits && r.holders[t.sender] == 0:
			return // nobody passes it
		case !fits:
			full = true
		case !full || r.holders[t.sender] == 0:
			r.large.Remove(el)
			t.at, t.line, t.holds = nil, nil, true
			r.queued -= t.bytes
			r.bytes += t.bytes
			r.holders[t.sender]++
			p.enterRoom(t)
		}
		el = next
	}
}

// release gives back the bytes of a large message.
func (p *plan) release(t *Ticket) {
	if !t.holds {
		return
	}
	r := &p.room
	t.holds = false
	r.bytes -= t.bytes
	if r.holders[t.sender]--; r.holders[t.sender] == 0 {
		delete(r.holders, t.sender)
	}
	p.admitLarge()
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
	r := &p.room
	switch {
	case t.at == nil:
		p.pass(t, t.left)
	case t.line == &r.large:
		r.large.Remove(t.at)
		r.queued -= t.bytes
		t.at, t.left = nil, 0
		p.admitLarge()
	default:
		t.line.Remove(t.at)
		t.at, t.left = nil, 0
		p.leaveRoom(t)
	}
	p.release(t)
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
	bytes := r.bytes
	for _, a := range all {
		large := a.Ticket != nil && a.Ticket.holds
		if crowded := r.large.Len() > 0 && bytes > part(p.b.Bytes); r.used <= part(p.b.Waiting) && (!crowded || !large) {
			if !crowded {
				break
			}
			continue
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
			if p.sendBack(a.Attempt, now); large && a.Ticket.left == 0 {
				bytes -= a.Ticket.bytes // given back when the message is
			}
		}
	}
	if p.admit(); r.waits() {
		r.looked = now
	}
}
