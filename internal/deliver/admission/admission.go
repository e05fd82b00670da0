// Package admission is the scheduler of attempts: it decides which one begins next, and how
// many recipients wait in memory.
//
// Strangers choose which hosts a process sends to, and a host that hangs holds a place until
// its time-out. Bounds on the number of attempts do not help: a stranger fills them with hosts,
// domains or inboxes. So places are shared by held time: the domain and the host that held
// places for the least time lately are next. A part of everything is reserved for prompt hosts,
// which accepted deliveries lately and give places back within a second. An activity with no
// attempt under way does not wait for a larger one.
//
// Prompt hosts may hang, too, hundreds in the same moment, and nothing tells them from others before.
// So the first attempt of each domain at prompt hosts takes a spare place: the queues of a process
// share as many as one of them has places. If more domains hang than table says, the other prompt
// hosts wait for a time-out.
//
// When the memory is full, attempts that cannot begin soon go back to their queue, those of
// hosts that held most first. Waiting is no try, and counts against no host.
//
// Every bound is a row of table, with its reason. Package outbound shares the processors.
package admission

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"fedpost/internal/engine/queue"
)

// Lane is the bounds of one protocol. The zero Lane has none of its own. Protocols with an
// equal Lane share its places.
type Lane struct {
	Name string
	// Places bounds the attempts under way, PerHost those at one host.
	Places, PerHost int
}

// Result is what an attempt shows about its host.
type Result int

const (
	// Unsent attempts made no request.
	Unsent Result = iota
	// Failed attempts made one that the host did not accept.
	Failed
	// Accepted attempts made one that the host accepted.
	Accepted
)

// Attempt is an attempt to deliver that asks for a place. Each of its functions is called once
// at most, without a lock.
type Attempt struct {
	Lane Lane
	// Host, Inbox and Site (the registrable domain) are the names by which attempts are
	// counted. An empty Site: the host is a site of its own.
	Site, Host, Inbox string
	// Alone says that no other attempt at the inbox may be under way.
	Alone bool
	// Receives counts how often the queue has handed out the delivery, including this time.
	Receives int
	// Until is the latest begin; after it the attempt goes back. Zero: no limit.
	Until    time.Time
	Activity string
	// Ticket, if not nil, holds the memory of the attempt while it waits.
	Ticket *Ticket
	// Here says that Do may run on the goroutine that calls Enter.
	Here bool

	// Do makes the attempt. It calls signed once the request is signed. Done is called after
	// Do, when the place is free again.
	Do   func(signed func()) Result
	Done func()
	// Back is called instead of Do if the attempt does not begin now. The delivery should come
	// back at that time; why completes "waits for a place: ".
	Back func(at time.Time, why string)

	host  *host
	inbox *inbox
	waiting
	underWay
	sentBack
}

// waiting is an attempt's place among those that wait.
type waiting struct {
	waits   bool
	arrived uint64 // number in the order of arrival
	entered time.Duration
	until   time.Duration // when it goes back; 0: never
	element *list.Element // in inbox.waiting
	sibling *list.Element // in workload.waiting
}

// underWay is an attempt that has a place.
type underWay struct {
	class    class // of its host when it began
	began    time.Duration
	charged  time.Duration // time that counts as held already
	computes bool          // its request is not signed yet
	young    *list.Element // in plan.young; nil: it computes, or is old
}

// sentBack is an attempt that went back to its queue.
type sentBack struct {
	back time.Duration // when it comes back
	why  rule          // that it waited for
}

// Scheduler shares the places and the memory of a process. Each queue has one of its own, so
// that a flood in one delays no other. It is safe for concurrent use.
type Scheduler struct {
	now   func() time.Time
	epoch time.Time

	mu    sync.Mutex
	plan  *plan
	last  time.Duration
	timer *time.Timer
	fires time.Duration // when the timer fires; 0: it is not set
}

// New returns a scheduler with the clock now.
func New(b Bounds, now func() time.Time) *Scheduler {
	return &Scheduler{now: now, epoch: now(), plan: newPlan(b)}
}

// Schedulers has the scheduler of each queue.
type Schedulers struct {
	Bounds Bounds
	Now    func() time.Time

	mu    sync.Mutex
	of    map[queue.Name]*Scheduler
	spare atomic.Int64
}

// Of returns the scheduler of a queue.
func (s *Schedulers) Of(q queue.Name) *Scheduler {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.of[q]; !ok {
		if s.of == nil {
			s.of = map[queue.Name]*Scheduler{}
		}
		s.of[q] = New(s.Bounds, s.Now)
		s.of[q].plan.spare = &s.spare
	}
	return s.of[q]
}

// todo is what the caller of change has to do without the lock: begin attempts, send others back,
// and let messages go on that have their memory.
type todo struct {
	started, sent []*Attempt
	granted       []chan struct{}
}

func (s *Scheduler) change(f func(now time.Duration)) (t todo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A clock that is set back must not make held times negative.
	s.last = max(s.last, s.now().Sub(s.epoch))
	f(s.last)
	t, s.plan.todo = s.plan.todo, todo{}
	if due := s.plan.due(); due > 0 && (s.fires == 0 || due < s.fires) {
		s.setTimer(due)
	}
	return t
}

// leastTimer is the shortest timer: it bounds the wake-ups while the clock stands still.
const leastTimer = 5 * time.Millisecond

func (s *Scheduler) setTimer(at time.Duration) {
	s.fires = at
	wait := max(at-s.last, leastTimer)
	if s.timer == nil {
		s.timer = time.AfterFunc(wait, s.advance)
		return
	}
	s.timer.Reset(wait)
}

func (s *Scheduler) advance() {
	s.act(s.change(func(now time.Duration) {
		s.fires = 0
		s.plan.advance(now)
	}), false)
}

// act carries out t. With keep it returns one of the attempts that begin: its caller makes it.
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

// Enter makes an attempt as soon as it has a place. It returns at once unless a.Here is set and
// there is a place now.
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

// work makes an attempt, then the one that gets its place, and so on: the stack of this goroutine
// is already as large as an attempt needs.
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

// Take waits for memory for the recipients of a message, and for that of a large message itself;
// bytes is its size, 0 for a small one. Senders take turns. It returns false if ctx ends before,
// or if too many large messages wait. The caller ends the ticket.
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

// mostTickets bounds the messages that wait for memory.
const mostTickets = 256

// Room waits while mostTickets messages or more wait for memory, before another is received.
func (s *Scheduler) Room(ctx context.Context) {
	for s.crowded() && ctx.Err() == nil {
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
		}
	}
}

func (s *Scheduler) crowded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &s.plan.memory
	return m.idle.Len()+m.busy.Len() >= mostTickets // large ones have a bound of their own
}

// Keep gives back the memory of all but n recipients: the others will not wait.
func (s *Scheduler) Keep(t *Ticket, n int) {
	if t != nil {
		s.act(s.change(func(time.Duration) { s.plan.pass(t, max(0, t.left-n)) }), false)
	}
}

// End gives back all memory of a ticket.
func (s *Scheduler) End(t *Ticket) {
	if t != nil {
		s.act(s.change(func(time.Duration) { s.plan.abandon(t) }), false)
	}
}
