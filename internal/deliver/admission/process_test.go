package admission

import (
	"cmp"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Times of the simulated process.
const (
	takingUp = 300 * time.Microsecond // of a message
	signing  = 300 * time.Microsecond
	hello    = time.Millisecond // a handshake with a server
	openAt   = 5                // failures in a row open a circuit
)

// server is a simulated host. Its answer to the nth attempt takes a time, after a handshake
// that takes processor time.
type server struct {
	name, site string
	answer     func(n int) (took time.Duration, r Result)
	handshake  time.Duration

	attempts, failures int
	down               bool
}

// delivery is one recipient.
type delivery struct {
	activity string
	to       *server
	inbox    string
	due      time.Duration // when it began to wait for anything but its turn
	receives int
	begun    bool
	began    time.Duration
	taken    time.Duration // up from the queue
	placed   time.Duration
	watched  string // by whom: known, new
}

type event struct {
	at  time.Duration
	seq int
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(e[i].at, e[j].at), cmp.Compare(e[i].seq, e[j].seq)) < 0
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// process is a simulated process.
type process struct {
	rand   *rand.Rand
	plan   *plan
	now    time.Duration
	events events
	seq    int

	visible    [][]*delivery // messages on the queue
	busy       bool          // a message is being taken up
	tickets    map[chan struct{}]func()
	all        []*delivery
	making     map[*Attempt]*delivery
	activities int
	memory     int           // the most recipients that waited
	away       time.Duration // nothing is signed before: a table that is away, or a full disk
}

func newProcess(seed uint64, b Bounds) *process {
	p := &process{
		rand: rand.New(rand.NewPCG(seed, 2)), plan: newPlan(b),
		tickets: map[chan struct{}]func(){}, making: map[*Attempt]*delivery{},
	}
	p.tick()
	return p
}

func (p *process) at(d time.Duration, do func()) {
	p.seq++
	heap.Push(&p.events, event{d, p.seq, do})
}

func (p *process) after(d time.Duration, do func()) { p.at(p.now+d, do) }

// run plays until a time.
func (p *process) run(until time.Duration) {
	for len(p.events) > 0 && p.events[0].at <= until {
		e := heap.Pop(&p.events).(event)
		p.now = e.at
		e.do()
		p.settle()
	}
}

// settle does what the plan says until it says nothing more.
func (p *process) settle() {
	for {
		do := p.plan.todo
		p.plan.todo = todo{}
		if len(do.started)+len(do.sent)+len(do.granted) == 0 {
			break
		}
		for _, got := range do.granted {
			take := p.tickets[got]
			delete(p.tickets, got)
			if take != nil {
				take()
			}
		}
		for _, a := range do.sent {
			d := p.making[a]
			delete(p.making, a)
			p.at(a.back, func() { p.send(d) })
		}
		for _, a := range do.started {
			p.attempt(a)
		}
	}
	p.memory = max(p.memory, p.plan.memory.used)
}

// tick has the plan advance when it is due, as a timer does.
func (p *process) tick() {
	const every = 10 * time.Millisecond
	if due := p.plan.due(); due > 0 && due <= p.now {
		p.plan.advance(p.now)
	}
	p.after(every, p.tick)
}

// send puts a message on the queue.
func (p *process) send(ds ...*delivery) {
	p.visible = append(p.visible, ds)
	p.poll()
}

// poll takes up the next message.
func (p *process) poll() {
	if p.busy || len(p.visible) == 0 {
		return
	}
	p.busy = true
	message := p.visible[0]
	p.visible = p.visible[1:]
	p.after(takingUp, func() {
		t := p.plan.take(message[0].activity, "", len(message), 0, p.now)
		p.tickets[t.got] = func() {
			p.busy = false
			for _, d := range message {
				p.enter(d, t)
			}
			p.poll()
		}
	})
}

func (p *process) enter(d *delivery, t *Ticket) {
	d.receives++
	d.taken = p.now
	if d.to.down {
		p.plan.pass(t, 1)
		return
	}
	a := &Attempt{Activity: d.activity, Site: d.to.site, Host: d.to.name, Inbox: d.inbox, Receives: d.receives, Ticket: t}
	p.making[a] = d
	p.plan.enter(a, p.now+2*time.Minute, p.now)
}

func (p *process) attempt(a *Attempt) {
	d := p.making[a]
	d.placed = p.now
	end := func(r Result) {
		delete(p.making, a)
		p.plan.leave(a, r, p.now)
	}
	s := d.to
	if s.down {
		end(Unsent)
		return
	}
	p.at(max(p.now, p.away)+signing, func() {
		d.begun, d.began = true, p.now
		p.plan.signed(a, p.now)
		handshake := s.handshake
		if handshake == hello && s.attempts > 0 {
			handshake = 0 // on a connection that is there
		}
		p.after(handshake, func() {
			s.attempts++
			took, r := s.answer(s.attempts)
			p.after(min(took, timeout), func() {
				if took >= timeout {
					r = Failed
				}
				if s.failures++; r != Failed {
					s.failures = 0
				}
				s.down = s.down || s.failures >= openAt
				end(r)
			})
		})
	})
}

// deliver makes deliveries due now, in messages of up to each recipients.
func (p *process) deliver(each int, watched string, to ...*server) {
	var ds []*delivery
	p.activities++
	for i, s := range to {
		ds = append(ds, &delivery{activity: fmt.Sprint(p.activities), to: s, inbox: fmt.Sprint(s.name, "/", i), due: p.now, watched: watched})
	}
	p.all = append(p.all, ds...)
	for m := range slices.Chunk(ds, each) {
		p.send(m...)
	}
}

// steady answers always the same.
func steady(took time.Duration, r Result) func(int) (time.Duration, Result) {
	return func(int) (time.Duration, Result) { return took, r }
}
