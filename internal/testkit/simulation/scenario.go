package simulation

import (
	"fmt"
	"slices"
	"time"

	"fedpost/internal/testkit/faults"
)

// Scenario is what a story is made of. It is drawn from a seed, and shrunk by leaving parts out.
// All times are counted from the beginning.
type Scenario struct {
	Seed      uint64
	Settings  map[string]string
	Processes []Process
	// Overlap lets scheduled runs overlap.
	Overlap bool
	Latency Latency
	Faults  Faults
	Servers []Server
	Acts    []Act
}

// Process is one that runs fedpost.
type Process struct {
	Name string
	// Whole: it has the engine for itself, as `up` has. Else it shares it, as a
	// function of Lambda does.
	Whole bool
	// Workers of each queue, whether it runs the schedule, and by how much its clock is wrong.
	Workers  int
	Schedule bool
	Skew     time.Duration
	// Places, if not 0: it receives from its queues as `up` does, with so many places for attempts
	// of each queue. Otherwise invocations have as many as they want.
	Places int
	// Older: until it dies, it is of the previous build, which does not know newerFields.
	Older bool
}

// Latency is how long calls to queues and the table take.
type Latency struct{ Typical time.Duration }

// Server is a server of strangers.
type Server struct {
	Host string
	// Phases in order of time; before the first, it accepts.
	Phases []Phase
	// Inboxes with phases of their own, by path, while the server accepts.
	Inboxes map[string][]Phase
	// Strict takes RFC 9421 only. It answers 202 to the other form and drops the activity, as some
	// servers do.
	Strict bool
	// Rate is how many requests a minute it takes; more are answered 429. 0: any.
	Rate int
	// Sipher, if not nil: it speaks Sipher, and not ActivityPub.
	Sipher *Sipher
}

// Phase is how a server behaves from a time on.
type Phase struct {
	From   time.Duration
	Answer Answer
}

// Answer is one way to behave.
type Answer struct {
	Kind Kind
	// Status and header of Says.
	Status     int
	RetryAfter string
	// Once: after one such answer it accepts.
	Once bool
	// Takes is how long it takes until the answer comes.
	Takes time.Duration
}

// Kind of an answer.
type Kind string

// The kinds.
const (
	Accepts Kind = "accepts"
	Says    Kind = "says" // a status
	Refuses Kind = "refuses connections"
	Hangs   Kind = "hangs"
	Resets  Kind = "resets connections"
	// Swallows: it accepts, and its answer is lost.
	Swallows Kind = "accepts and resets"
	// Rants: a malformed answer, quoted at length by net/http.
	Rants Kind = "answers garbage"
	// Floods: an error with a huge text of odd characters.
	Floods Kind = "answers 500 with a huge text"
)

func (a Answer) String() string {
	if a.Takes > 0 {
		in := a.Takes
		a.Takes = 0
		return a.String() + " after " + in.String()
	}
	if a.Kind != Says {
		return string(a.Kind)
	}
	if a.Once {
		return fmt.Sprintf("says %d once", a.Status)
	}
	if a.RetryAfter != "" {
		return fmt.Sprintf("says %d, Retry-After %q", a.Status, a.RetryAfter)
	}
	return fmt.Sprintf("says %d", a.Status)
}

// Act is what a caller or an operator does.
type Act struct {
	At   time.Duration
	Post *Post `json:",omitempty"`
	// Do is what an operator does to Host, or a caller with the post N.
	Do   string        `json:",omitempty"`
	Host string        `json:",omitempty"`
	N    int           `json:",omitempty"`
	For  time.Duration `json:",omitempty"`
	Rate int           `json:",omitempty"`
	// Key numbers the keys of the actor N, which begins with key 0.
	Key int `json:",omitempty"`
}

// What can be done.
const (
	Block      = "block"
	Unblock    = "unblock"
	Pause      = "pause"
	Limit      = "limit"
	Cancel     = "cancel"
	RetryDead  = "retry the dead"
	Retry      = "retry what failed of post"
	Check      = "check"
	Kill       = "kill"
	SetBack    = "set the clock of all back"
	SetForward = "set the clocks right"
	Rotate     = "put a new key for actor"
	Register   = "register" // Host registers itself
)

// Post is an activity that a caller submits.
type Post struct {
	N          int // its name
	Recipients []Inbox
	Text       string
	Actor      int
	Ordering   string
	// After is another post of the same ordering key, which is answered first; 0: none.
	After    int
	Delay    time.Duration
	Expires  time.Duration
	Dedup    string
	Priority string
	// Patience is how many more times it is submitted if there is no answer, and
	// Twins how many more callers submit it at about the same time.
	Patience, Twins int
	// Batch, if not 0, is what all posts of a batch have in common: they are submitted in
	// one call, by the first of them.
	Batch int
	// Job, if not empty, is that of a Sipher job.
	Job string
	// Within, if not 0, is within what time after its acceptance, or its delay, each of its
	// deliveries has to begin, whatever strangers do.
	Within time.Duration
	// Subject, if not empty, is the object of which the post is a version; a version need not be
	// sent once there is a newer one (coalesce).
	Subject string
}

// Inbox is a recipient's.
type Inbox struct {
	Server string
	Path   string
}

func (i Inbox) url() string { return "https://" + i.Server + i.Path }

// Faults are the failures of calls: by chance or, once they are known, as At lists them.
type Faults struct {
	// Fail, Lose, Die and Late are the shares of calls that fail, whose answer is
	// lost, that end their process, and that take long.
	Fail, Lose, Die, Late float64
	// Stuck is the share of calls that fail after a minute or less, as connections
	// do that nobody answers.
	Stuck float64
	// Storms are times in which far more calls fail.
	Storms []Span
	// Until is when they are over: not all work is done before.
	Until time.Duration
	// At, if not nil, lists all of them.
	At map[string]Trouble
}

// Trouble is what happens to one call.
type Trouble struct {
	Kind faults.Kind
	// Late is how long it takes, before it acts or after.
	Late  time.Duration
	After bool
}

func (t Trouble) String() string {
	switch {
	case t.Late > 0 && t.Kind != 0:
		return fmt.Sprintf("fails after %s", t.Late)
	case t.Late > 0 && t.After:
		return fmt.Sprintf("answers after %s", t.Late)
	case t.Late > 0:
		return fmt.Sprintf("acts after %s", t.Late)
	}
	return t.Kind.String()
}

func (t Trouble) apply(f fate) fate {
	switch {
	case t.Late > 0 && t.After:
		f.after += t.Late
	case t.Late > 0:
		f.before += t.Late
		f.fault.Kind = t.Kind
	default:
		f.fault.Kind = t.Kind
	}
	return f
}

// drawn draws the trouble of a call.
func (f Faults) drawn(p *process, h *held) (Trouble, bool) {
	if time.Since(p.began) > f.Until || h.Op == "Receive" || h.Target == "http" {
		return Trouble{}, false
	}
	n := share(p.draw("fault", h.name))
	if slices.ContainsFunc(f.Storms, func(s Span) bool { return s.has(time.Since(p.began)) }) {
		n /= 20
	}
	switch kind := p.draw("kind", h.name); {
	case n < f.Fail:
		return Trouble{Kind: []faults.Kind{faults.FailBefore, faults.Refuse}[kind%2]}, true
	case n < f.Fail+f.Lose:
		return Trouble{Kind: faults.ActThenLose}, true
	case n < f.Fail+f.Lose+f.Die:
		t := Trouble{Kind: []faults.Kind{faults.DieBefore, faults.DieAfter, faults.DieHalfway}[kind%3]}
		if t.Kind == faults.DieHalfway && h.Entries < 2 {
			t.Kind = faults.DieAfter
		}
		return t, true
	case n < f.Fail+f.Lose+f.Die+f.Late:
		return Trouble{Late: time.Duration(1+kind%40) * time.Second, After: kind>>8%2 == 0}, true
	case n < f.Fail+f.Lose+f.Die+f.Late+f.Stuck:
		return Trouble{Kind: faults.Refuse, Late: time.Duration(10+kind%50) * time.Second}, true
	}
	return Trouble{}, false
}

// Span is a time from one to another.
type Span struct{ From, To time.Duration }

func (s Span) has(at time.Duration) bool { return s.From <= at && at < s.To }
