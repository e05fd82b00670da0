package admission

import (
	"cmp"
	"container/list"
	"slices"
	"time"

	"fedpost/internal/engine/queue"
)

// memory is the memory of messages whose recipients wait.
type memory struct {
	used     int
	idle     list.List // of *Ticket that wait for memory: the first of their activity
	busy     list.List // the others; both lists are ordered by Ticket.due
	senders  queue.FairOrder
	idleNext bool          // the next memory is for one of idle
	looked   time.Duration // when a look last left messages waiting
	// last is when a message last began to wait; since is when the first did of those that each
	// began to wait within lookEvery of the one before.
	since, last time.Duration

	bytes   int            // of large messages that have got theirs
	large   list.List      // of *Ticket: large messages that wait for bytes, ordered by Ticket.due
	queued  int            // bytes of those
	holders map[string]int // large messages that have bytes, by sender
}

// Ticket is the memory of one message. A nil ticket takes none.
type Ticket struct {
	activity, sender string
	left             int  // recipients
	bytes            int  // of a large message
	holds            bool // it has its bytes
	got              chan struct{}
	due              time.Duration // by which it is ordered: senders take turns
	list             *list.List    // in which it waits
	at               *list.Element // in list; nil: it has its memory
}

func (m *memory) waits() bool { return m.idle.Len()+m.busy.Len()+m.large.Len() > 0 }

// take adds a message with n recipients to those that wait for memory. A large message first
// waits for its bytes; 0: it is a small one. It returns nil if too many large messages wait.
func (p *plan) take(activity, sender string, n, bytes int, now time.Duration) *Ticket {
	m := &p.memory
	t := &Ticket{activity: activity, sender: sender, left: n, got: make(chan struct{}), due: now - m.senders.Offset(sender, now)}
	if p.b.Bytes == 0 || bytes == 0 {
		p.enterMemory(t)
	} else {
		t.bytes = max(1, min(bytes, p.b.Bytes/2))
		t.wait(&m.large)
		m.queued += t.bytes
		if p.admitLarge(); t.list == &m.large && m.queued > max(p.b.Bytes/4, t.bytes) {
			p.abandon(t)
			return nil
		}
	}
	if t.at != nil {
		if now-m.last > lookEvery {
			m.since = now
		}
		m.last = now
		p.advance(now)
	}
	return t
}

// wait adds a ticket to a list, by its due.
func (t *Ticket) wait(in *list.List) {
	t.list = in
	before := in.Back()
	for before != nil && before.Value.(*Ticket).due > t.due {
		before = before.Prev()
	}
	if before == nil {
		t.at = in.PushFront(t)
	} else {
		t.at = in.InsertAfter(t, before)
	}
}

// enterMemory adds a ticket to those that wait for the memory of recipients. One without recipients
// needs none.
func (p *plan) enterMemory(t *Ticket) {
	if t.left == 0 {
		p.granted = append(p.granted, t.got)
		return
	}
	m, e := &p.memory, p.workload(t.activity)
	e.tickets++
	if e.tickets == 1 {
		t.wait(&m.idle)
	} else {
		t.wait(&m.busy)
	}
	p.admit()
}

// admitLarge gives bytes to large messages. A quarter more is for senders of whom no large
// message is in memory, so that a sender of many to servers that hang delays no other.
func (p *plan) admitLarge() {
	m := &p.memory
	if m.holders == nil {
		m.holders = map[string]int{}
	}
	full := false
	for el := m.large.Front(); el != nil; {
		t, next := el.Value.(*Ticket), el.Next()
		most := p.b.Bytes
		if m.holders[t.sender] == 0 {
			most += p.b.Bytes / 4
		}
		switch fits := m.bytes+t.bytes <= most; {
		case !fits && m.holders[t.sender] == 0:
			return // no message overtakes it
		case !fits:
			full = true
		case !full || m.holders[t.sender] == 0:
			m.large.Remove(el)
			t.at, t.list, t.holds = nil, nil, true
			m.queued -= t.bytes
			m.bytes += t.bytes
			m.holders[t.sender]++
			p.enterMemory(t)
		}
		el = next
	}
}

// release gives back the bytes of a large message.
func (p *plan) release(t *Ticket) {
	if !t.holds {
		return
	}
	m := &p.memory
	t.holds = false
	m.bytes -= t.bytes
	if m.holders[t.sender]--; m.holders[t.sender] == 0 {
		delete(m.holders, t.sender)
	}
	p.admitLarge()
}

func (p *plan) admit() {
	m := &p.memory
	for {
		next := &m.busy
		if m.idleNext && m.idle.Len() > 0 || m.busy.Len() == 0 || m.used >= p.b.Waiting {
			next = &m.idle
		}
		if next.Len() == 0 || m.used >= p.b.Waiting+p.b.Waiting/4 {
			return
		}
		t := next.Remove(next.Front()).(*Ticket)
		t.at = nil
		m.idleNext = !m.idleNext
		m.used += t.left
		p.granted = append(p.granted, t.got)
	}
}

func (p *plan) pass(t *Ticket, n int) {
	if n = min(n, t.left); n == 0 {
		return
	}
	t.left -= n
	p.memory.used -= n
	p.leaveMemory(t)
	p.admit()
}

// leaveMemory forgets a message of which no recipient waits.
func (p *plan) leaveMemory(t *Ticket) {
	if t.left == 0 {
		p.workload(t.activity).tickets--
		p.settle(t.activity)
	}
}

// abandon ends a ticket, whether it waits for memory or has it.
func (p *plan) abandon(t *Ticket) {
	m := &p.memory
	switch {
	case t.at == nil:
		p.pass(t, t.left)
	case t.list == &m.large:
		m.large.Remove(t.at)
		m.queued -= t.bytes
		t.at, t.left = nil, 0
		p.admitLarge()
	default:
		t.list.Remove(t.at)
		t.at, t.left = nil, 0
		p.leaveMemory(t)
	}
	p.release(t)
}

// relieve sends attempts back while messages wait for memory: of those that wait at a full
// bound, all but as many as begin there within a second. It stops when a quarter of the memory
// is free, because each look takes time.
func (p *plan) relieve(now time.Duration) {
	m := &p.memory
	soon := p.old == 0 && now-m.since < quick // no attempt is old yet: all may begin soon, except at a bound that shows otherwise
	if !m.waits() || now < m.looked+lookEvery || soon && !p.overfull(now) {
		return
	}
	type waiter struct {
		*Attempt
		receives int
		held     held // by its site; 0 while it waits for a processor, which nobody's host holds
	}
	var all []waiter
	surplus := map[*bound]int{}
	for _, hosts := range p.waiting {
		for _, h := range hosts {
			for a := range h.attempts() {
				w := waiter{a, min(a.Receives, receives), 0}
				if p.processors(h.class) > 0 {
					w.held = h.site.held
				}
				all = append(all, w)
				for _, b := range p.bounds(a) {
					if _, known := surplus[b]; !known {
						surplus[b] = p.surplus(h, b, now)
					}
				}
			}
		}
	}
	// Those stay whose site has held least, then those that were received most often, then those
	// whose host has held least, then those that came first.
	slices.SortFunc(all, func(a, b waiter) int {
		g, h := a.host, b.host
		return cmp.Or(
			cmp.Compare(b.held, a.held), cmp.Compare(a.receives, b.receives),
			cmp.Compare(h.held, g.held), cmp.Compare(b.arrived, a.arrived),
		)
	})
	pressed := now-m.since > quick/4
	used, bytes := m.used, m.bytes // without those of messages that are admitted meanwhile
	for _, a := range all {
		large := a.Ticket != nil && a.Ticket.holds
		if crowded := m.large.Len() > 0 && bytes > part(p.b.Bytes); used <= part(p.b.Waiting) && (!crowded || !large) {
			if !crowded {
				break
			}
			continue
		}
		bs, binds := p.bounds(a.Attempt), p.binds(a.Attempt)
		shown := a.host.class == others && a.host.mean > 0
		late := a.inbox.old > 0 && a.inbox.under >= a.host.most(a.inbox, a.Attempt)
		for i, b := range bs {
			late = late || binds[i] && (!soon && pressed && shown || surplus[b] > 0 && (!soon || a.host.shows(i)))
		}
		if late {
			for _, b := range bs {
				surplus[b]--
			}
			if a.Ticket != nil {
				used--
			}
			if p.sendBack(a.Attempt, now); large && a.Ticket.left == 0 {
				bytes -= a.Ticket.bytes // they are given back with the message
			}
		}
	}
	if p.admit(); m.waits() {
		m.looked = now
	}
}

// overfull reports whether more attempts wait at a bound that shows what it takes.
func (p *plan) overfull(now time.Duration) bool {
	for _, hosts := range p.waiting {
		for _, h := range hosts {
			if p.surplus(h, &h.bound, now) > 0 || h.shows(1) && !p.shared(h) && p.surplus(h, &h.site.bounds[h.class], now) > 0 {
				return true
			}
		}
	}
	return false
}

// shows reports whether the i-th of a host's bounds shows what it takes before an attempt is old: its
// own, and that of its site, unless acceptances give it more places.
func (h *host) shows(i int) bool { return i == 0 || i == 1 && h.class == others && h.site.mean > 0 }
