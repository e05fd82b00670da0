// Package faults breaks the calls that a piece of work makes to queues, tables
// and other servers, one at a time, so that a test can show that the work
// survives every one of them.
//
// A fixed list of crash points goes stale: somebody adds a write between two others, and
// nobody adds the new crash point to the list. So Sweep finds the points itself: it runs
// the work once to see which calls the work makes, and then once for each call and each
// kind of fault.
//
// A new sweep does its work through the plan, revives the process and looks at what is left:
//
//	faults.Sweep(t, func(t *testing.T, p *faults.Plan) {
//		e := memory.New(time.Now, nil)
//		s := store.New(faults.Table(p, "table", e.Table()), time.Now)
//		_ = work(s) // may fail: a call was broken
//		p.Revive()
//		if err := work(s); err != nil {
//			t.Fatalf("the second try: %v", err)
//		}
//		… // what must hold, read from e
//	})
//
// engines.Sweep does the same on every engine.
package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// ErrInjected is what a call that was made to fail returns: it looks like a
// time-out, and says nothing about whether the call was acted on.
var ErrInjected = errors.New("injected fault")

// ErrRefused accompanies ErrInjected where the fault is Refuse.
var ErrRefused = errors.New("refused")

// ErrDead is the error of all calls after the simulated death of the process, until
// Revive.
var ErrDead = errors.New("injected crash: the process is dead")

// Kind is how a call goes wrong.
type Kind int

const (
	// FailBefore: the call does nothing and returns ErrInjected, so that the
	// caller cannot distinguish it from ActThenLose.
	FailBefore Kind = iota + 1
	// Refuse: the call does nothing. The error of a send says so with
	// queue.ErrNotSent.
	Refuse
	// ActThenLose: the call does its work, but its answer is lost.
	ActThenLose
	// DieBefore: the process dies just before the call.
	DieBefore
	// DieAfter: the process dies just after the call did its work.
	DieAfter
	// FailEntry: one entry of a SendBatch is refused, the others are sent. Any
	// other call is not affected.
	FailEntry
	// DieHalfway: the process dies when a SendBatch, PutAll or DeleteAll has handled
	// the first half of its entries, because these calls make many requests. Any
	// other call is not affected.
	DieHalfway
)

// Kinds are the kinds that any call can suffer.
var Kinds = []Kind{FailBefore, Refuse, ActThenLose, DieBefore, DieAfter}

func (k Kind) String() string {
	names := [...]string{"none", "FailBefore", "Refuse", "ActThenLose", "DieBefore", "DieAfter", "FailEntry", "DieHalfway"}
	if k < 0 || int(k) >= len(names) {
		return fmt.Sprintf("Kind(%d)", int(k))
	}
	return names[k]
}

// Fault makes one call go wrong.
type Fault struct {
	Call  int // the number of the call, from 1; of no meaning with Like
	Kind  Kind
	Entry int // of FailEntry: the index in the batch
	// Like, if not nil, is the call of another run. The fault comes with the call that has
	// the same number among those of its object and method, or the next of them that it
	// fits. So it comes also where goroutines make calls side by side, in any order.
	Like *Call
}

func (f Fault) String() string {
	if f.Like != nil {
		return fmt.Sprintf("%s at %s", f.Kind, f.Like)
	}
	return fmt.Sprintf("%s at call %d", f.Kind, f.Call)
}

// hits reports whether the fault comes with a call.
func (f Fault) hits(c Call) bool {
	if f.Like == nil {
		return f.Call == c.N && f.Fits(c)
	}
	return f.Like.Target == c.Target && f.Like.Op == c.Op && f.Like.Nth <= c.Nth && f.Fits(c)
}

// Fits reports whether a call can go wrong in this way.
func (f Fault) Fits(c Call) bool {
	switch f.Kind {
	case FailEntry:
		return c.Op == "SendBatch" && f.Entry < c.Entries
	case DieHalfway:
		return c.Entries > 1 && (c.Op == "SendBatch" || c.Op == "PutAll" || c.Op == "DeleteAll")
	}
	return true
}

// half returns how many of n entries a call with the fault f handles.
func (f Fault) half(n int) int {
	if f.Kind == DieHalfway {
		return n / 2
	}
	return n
}

// Call is one call that was made.
type Call struct {
	N       int    // from 1, over all objects of the plan
	Nth     int    // from 1, among the calls of this method of this object
	Target  string // the name that the object was wrapped with
	Op      string // the method
	Entries int    // number of messages, items or keys of the call
	About   string // the first of them
}

func (c Call) String() string { return fmt.Sprintf("%d %s.%s", c.N, c.Target, c.Op) }

// Plan counts the calls of all objects that are wrapped with it, and breaks
// those it has faults for. It is safe for concurrent use.
type Plan struct {
	mu     sync.Mutex
	faults []Fault
	calls  []Call
	made   map[string]int // calls of each method of each object
	spent  map[int]bool   // by index of faults
	fired  int
	next   string // the operation whose next call fails
	dead   bool
}

// NewPlan returns a plan with some faults, or none to only count.
func NewPlan(faults ...Fault) *Plan {
	return &Plan{faults: slices.Clone(faults), made: map[string]int{}, spent: map[int]bool{}}
}

// Calls lists the calls made so far, without those that a dead process tried.
func (p *Plan) Calls() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

// Made returns how many calls were made so far, as Calls lists them.
func (p *Plan) Made() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.calls)
}

// Fired returns how many faults have come to pass.
func (p *Plan) Fired() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fired
}

// Dead reports whether the process is dead.
func (p *Plan) Dead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// Revive starts the process again: from now on calls work, and go on being
// counted.
func (p *Plan) Revive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = false
}

// Do makes one call through the plan, for objects without a wrapper in this package.
// After an error the caller must ignore every result that act has stored.
func (p *Plan) Do(target, op string, act func() error) error {
	return p.Intercept(context.Background(), Call{Target: target, Op: op, Entries: 1}, func(Fault) error { return act() })
}

// Intercept implements Interceptor.
func (p *Plan) Intercept(_ context.Context, call Call, act func(Fault) error) error {
	call, fault, err := p.begin(call)
	if err != nil {
		return err
	}
	died, err := fault.Run(call, act)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead && !died {
		// The process died in another goroutine's call while this call was under way, so
		// the answer of this call reaches nobody.
		return fmt.Errorf("%w (during %s)", ErrDead, call)
	}
	p.dead = p.dead || died
	return err
}

// begin counts a call and returns its fault. It returns an error if the process is dead:
// then the call must not act.
func (p *Plan) begin(call Call) (Call, Fault, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	call.N, call.Nth = len(p.calls)+1, p.made[call.Target+"."+call.Op]+1
	if p.dead {
		return call, Fault{}, fmt.Errorf("%w (before %s)", ErrDead, call)
	}
	p.calls = append(p.calls, call)
	p.made[call.Target+"."+call.Op]++
	if p.next == call.Op {
		p.next = ""
		p.faults = append(p.faults, Fault{Call: call.N, Kind: FailBefore})
	}
	for i, f := range p.faults {
		if !p.spent[i] && f.hits(call) {
			p.spent[i] = true
			p.fired++
			p.dead = f.Kind == DieBefore
			return call, f, nil
		}
	}
	return call, Fault{}, nil
}

// FailNext has the next call of an operation fail before it acts.
func (p *Plan) FailNext(op string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = op
}
