// Package admission decides which attempt begins next: it is the one scheduler of places, and of
// the memory for what waits for one.
//
// Strangers choose to whom a process sends, and how long their servers keep an attempt. What
// hangs gives its place back only after its time-out, so who has places for all who ask has none
// left for a server that is well. Bounds that count attempts do not help: a stranger fills any of
// them with hosts, domains or inboxes. So places are shared by the time for which they are held.
// Of those who wait, the domain and the host are next that have held places for the least time
// lately. A part of everything is kept for hosts that have accepted deliveries lately and give
// places back within a second: prompt hosts. An attempt at one that takes longer counts among the
// others from then on, so no host that turns bad keeps what is kept for the good for longer than
// a second. An activity of which nothing is under way does not wait for a larger one.
//
// What waits does so in memory, at no cost but that. A message that finds the memory full says
// that others wait behind it. Then of what waits at a full bound no more stays than begins there
// soon, at the pace at which attempts begin just now. The rest goes back to its queue, who has
// held most first, until those before it can have had their places. Waiting is no try, and
// nothing is counted against the host.
//
// Every bound is a row of table, with its reason. Processor time is shared by package outbound: an
// attempt takes its turns at the processors many times while it has its place.
//
// A queue has a Scheduler of its own, so that a flood in one holds up no other.
package admission

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// Lane is a protocol's own bounds, where it has some. The zero Lane has none but those of the
// process. Lanes of other bounds are others.
type Lane struct {
	Name string
	// Places is how many attempts of all are under way at once, PerHost how many at one host.
	Places, PerHost int
}

// Result says how an attempt ended, as far as that tells something of its host.
type Result int

const (
	// Unsent attempts made no request.
	Unsent Result = iota
	// Failed attempts made one that the host did not accept.
	Failed
	// Accepted attempts made one that the host accepted.
	Accepted
)

// Attempt is an attempt to deliver that asks for a place. Its functions are called without any
// lock, once each at most.
type Attempt struct {
	Lane Lane
	// Host and Inbox are names of which all attempts count together. Site is the registrable
	// domain; empty: the host is a site of its own.
	Site, Host, Inbox string
	// Alone says that no other attempt at the inbox may be under way.
	Alone bool
	// Receives is how often the queue has handed out the delivery, this time included.
	Receives int
	// Until is when the attempt has begun at the latest, or goes back; zero: when others
	// need what it waits for.
	Until time.Time
	// Activity is the activity that is delivered.
	Activity string
	// Ticket, if not nil, has the memory that is free when the attempt waits no more.
	Ticket *Ticket
	// Here says that Do may run on the goroutine that calls Enter, if there is a place at once.
	Here bool

	// Do makes the attempt. It calls signed, if it computes first, when it begins to wait for
	// the host. Done is called after it, when the place is free again.
	Do   func(signed func()) Result
	Done func()
	// Back is called in place of Do if the attempt does not begin now. The delivery should
	// come back at that time; why completes "waits for a place: ".
	Back func(at time.Time, why string)

	host     *host
	inbox    *inbox
	element  *list.Element // in inbox.waiting
	arrived  uint64
	sibling  *list.Element // in errand.waiting
	waits    bool
	until    time.Duration // when it goes back; 0: never
	began    time.Duration
	charged  time.Duration // time that counts as held already
	class    class         // of its host when it began
	computes bool          // its request is not signed yet
	young    *list.Element // in plan.young; nil: it computes, or is old
	back     time.Duration // when it comes back
	why      rule          // that it waited for
}

// Scheduler shares what a process has among its attempts. It is safe for concurrent use.
type Scheduler struct {
	now   func() time.Time
	epoch time.Time

	mu    sync.Mutex
	plan  *plan
	last  time.Duration
	timer *time.Timer
	rings time.Duration // when timer does; 0: not at all
}

// New returns a scheduler. now is the clock.
func New(b Bounds, now func() time.Time) *Scheduler {
	return &Scheduler{now: now, epoch: now(), plan: newPlan(b)}
}

// todo is what is left to be done without the lock.
type todo struct {
	started, sent []*Attempt
	granted       []chan struct{}
}

// change has f change the plan.
func (s *Scheduler) change(f func(now time.Duration)) (t todo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A clock that is set back must not make what is held negative.
	s.last = max(s.last, s.now().Sub(s.epoch))
	f(s.last)
	p := s.plan
	t = todo{p.started, p.sent, p.granted}
	p.started, p.sent, p.granted = nil, nil, nil
	if due := p.due(); due > 0 && (s.rings == 0 || due < s.rings) {
		s.ring(due)
	}
	return t
}

// leastRing keeps a clock that stands still from being asked all the time.
const leastRing = 5 * time.Millisecond

// ring has the plan advance at a time.
func (s *Scheduler) ring(at time.Duration) {
	s.rings = at
	wait := max(at-s.last, leastRing)
	if s.timer == nil {
		s.timer = time.AfterFunc(wait, s.advance)
		return
	}
	s.timer.Reset(wait)
}

func (s *Scheduler) advance() {
	s.act(s.change(func(now time.Duration) {
		s.rings = 0
		s.plan.advance(now)
	}), false)
}

// act does what is left to be done. With keep it returns one of the attempts that begin, for
// its caller to make.
func (s *Scheduler) act(t todo, keep bool) (next *Attempt) {
	for _, got := range t.granted {
		close(got)
	}
	for _, a := range t.started {
		if keep && next == nil {
			next = a
			continue
		}
		go s.work(a)
	}
	for _, a := range t.sent {
		a.Back(s.epoch.Add(a.back), table[a.why].reason)
	}
	return next
}

// Enter makes an attempt as soon as it has a place. It returns at once, unless a may be made
// here and has its place.
func (s *Scheduler) Enter(a *Attempt) {
	t := s.change(func(now time.Duration) {
		until := time.Duration(0)
		if !a.Until.IsZero() {
			until = max(a.Until.Sub(s.epoch), 1)
		}
		s.plan.enter(a, until, now)
	})
	if !a.Here || len(t.started) == 0 || t.started[0] != a {
		s.act(t, false)
		return
	}
	t.started = t.started[1:]
	s.act(t, false)
	r := s.do(a)
	s.act(s.change(func(now time.Duration) { s.plan.leave(a, r, now) }), false)
	a.Done()
}

func (s *Scheduler) do(a *Attempt) Result {
	return a.Do(func() { s.act(s.change(func(now time.Duration) { s.plan.signed(a, now) }), false) })
}

// work makes an attempt, then one of those that its place goes to, and so on: a goroutine whose
// stack has grown to what an attempt needs is worth keeping.
func (s *Scheduler) work(a *Attempt) {
	for next := a; next != nil; {
		a = next
		r := s.do(a)
		next = s.act(s.change(func(now time.Duration) { s.plan.leave(a, r, now) }), true)
		a.Done()
	}
}

// Withdraw ends the wait of an attempt. It reports whether the attempt waited; if so, none of
// its functions is called.
func (s *Scheduler) Withdraw(a *Attempt) (waited bool) {
	s.act(s.change(func(now time.Duration) { waited = s.plan.withdraw(a, now) }), false)
	return waited
}

// Take waits for memory for the recipients of a message of an activity, in the turn of its
// sender, and for that of a large message itself. bytes is its size; 0: it is a small one. It
// reports false if ctx ends before, or if too many large messages wait. The caller ends the
// ticket.
func (s *Scheduler) Take(ctx context.Context, activity, sender string, recipients, bytes int) (*Ticket, bool) {
	if s.plan.b.Waiting == 0 {
		return nil, true
	}
	var t *Ticket
	s.act(s.change(func(now time.Duration) { t = s.plan.take(activity, sender, recipients, bytes, now) }), false)
	if t == nil {
		return nil, false
	}
	select {
	case <-t.got:
		return t, true
	default:
	}
	select {
	case <-t.got:
		return t, true
	case <-ctx.Done():
	}
	s.End(t)
	return nil, false
}

// Pass says that n recipients of a ticket will not wait.
func (s *Scheduler) Pass(t *Ticket, n int) {
	if t != nil && n > 0 {
		s.act(s.change(func(time.Duration) { s.plan.pass(t, n) }), false)
	}
}

// End says that no recipient of a ticket waits any more.
func (s *Scheduler) End(t *Ticket) {
	if t != nil {
		s.act(s.change(func(time.Duration) { s.plan.abandon(t) }), false)
	}
}
