package admission

import (
	"cmp"
	"container/list"
	"slices"
	"time"

	"fedpost/internal/engine/queue"
)

type memory struct {
	used     int
	idle     list.List // of *Ticket that wait for memory: the first of their activity
	busy     list.List // the others; both lists are ordered by Ticket.due
	senders  queue.Turns
	idleNext bool          // the next memory is for one of idle
	looked   time.Duration // when a look last left messages waiting
	// since is when messages began to wait, ignoring pauses of less than lookEvery; last is
	// when the last one began.
	since, last time.Duration
}

// Ticket is the memory of one message. A nil ticket takes none.
type Ticket struct {
	activity string
	left     int // recipients
	got      chan struct{}
	due      time.Duration // by which it is ordered: senders take turns
	list     *list.List    // in which it waits
	at       *list.Element // in list; nil: it has its memory
}

func (m *memory) waits() bool { return m.idle.Len()+m.busy.Len() > 0 }

// take adds a message with n recipients to those that wait for memory.
func (p *plan) take(activity, sender string, n int, now time.Duration) *Ticket {
	m, e := &p.memory, p.workload(activity)
	t := &Ticket{activity: activity, left: n, got: make(chan struct{}), due: now - m.senders.Take(sender, now), list: &m.busy}
	if e.tickets == 0 {
		t.list = &m.idle
	}
	e.tickets++
	before := t.list.Back()
	for before != nil && before.Value.(*Ticket).due > t.due {
		before = before.Prev()
	}
	if before == nil {
		t.at = t.list.PushFront(t)
	} else {
		t.at = t.list.InsertAfter(t, before)
	}
	if p.admit(); t.at != nil {
		if now-m.last > lookEvery {
			m.since = now
		}
		m.last = now
		p.advance(now)
	}
	return t
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
	p.release(t)
	p.admit()
}

// release forgets a message of which no recipient waits.
func (p *plan) release(t *Ticket) {
	if t.left == 0 {
		p.workload(t.activity).tickets--
		p.settle(t.activity)
	}
}

// abandon ends a ticket, whether it waits for memory or has it.
func (p *plan) abandon(t *Ticket) {
	if t.at == nil {
		p.pass(t, t.left)
		return
	}
	t.list.Remove(t.at)
	t.at, t.left = nil, 0
	p.release(t)
}

// relieve sends attempts back while messages wait for memory: of those that wait at a full
// bound, all but as many as begin there within a second. It stops when a quarter of the memory
// is free, because each look takes time.
func (p *plan) relieve(now time.Duration) {
	m := &p.memory
	if !m.waits() || now < m.looked+lookEvery || p.old == 0 && now-m.since < quick {
		return // no attempt is old yet: all may begin soon
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
	// Attempts with more receives stay; then those of sites and hosts that held least, the
	// oldest first.
	slices.SortFunc(all, func(a, b waiter) int {
		g, h := a.host, b.host
		return cmp.Or(
			cmp.Compare(h.class, g.class), cmp.Compare(a.receives, b.receives), cmp.Compare(h.site.held, g.site.held),
			cmp.Compare(h.held, g.held), cmp.Compare(b.arrived, a.arrived),
		)
	})
	pressed := now-m.since > quick/4
	for _, a := range all {
		if m.used <= part(p.b.Waiting) {
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
	if p.admit(); m.waits() {
		m.looked = now
	}
}
