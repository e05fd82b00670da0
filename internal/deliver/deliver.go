// Package deliver takes queue messages to inboxes.
//
// It stands between at-least-once queues and servers of strangers. A queue may hand out
// a message twice, the process may die between any two calls, and a server may hang,
// refuse or vanish. Still every recipient gets an activity once, and ends in a state that
// can be looked up, because the steps are in an order in which any first few can be
// repeated: see docs/architecture.md, "Deliver".
//
// The package knows neither SQS nor HTTP. Messages come as queue.Received, a
// protocol.Sender makes attempts, and all workers share the states of hosts through
// package circuit.
package deliver

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/deliver/bodies"
	"fedpost/internal/deliver/coalesce"
	"fedpost/internal/deliver/intake"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
	"fedpost/internal/message/claimcheck"
	"fedpost/internal/message/tracing"
	"fedpost/internal/protocol"
	"fedpost/internal/servers/cache"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
	"fedpost/internal/servers/ratelimit"
)

// Config is what an Engine works with. The fields up to Lot are required.
type Config struct {
	Queues      func(queue.Name) Queue
	Ledger      ledger.Store
	Servers     circuit.Store
	Agenda      intake.Agenda
	Payloads    claimcheck.Store
	Protocols   protocol.Set
	DeadLetters DeadLetterWriter
	Lot         *parking.Lot

	// Writable returns an error if the table cannot be written. Outcomes that cannot be
	// recorded are then kept and recorded later, and nothing new is begun; nil: they are
	// found out again when their messages come back.
	Writable func(context.Context) error

	// Events is told what became of recipients; nil: nobody is.
	Events Teller

	// Hosts is what this process knows of servers; default: a cache of Servers.
	Hosts *cache.Hosts

	// Coalesce says which deliveries of activities that were submitted with coalesce
	// need not be sent. Limiter keeps deliveries to a host below its rate, if the host's
	// state says that it has one. Both may be nil.
	Coalesce *coalesce.Filter
	Limiter  *ratelimit.Limiter

	// Worker is the prefix of the names of this process's owners of claims. On the
	// embedded engine it tells this process from earlier ones, whose claims have
	// lapsed.
	Worker string

	Rules  circuit.Rules
	Limits Limits
	Log    *slog.Logger
	Meter  Meter
	// Trace makes spans of the work on activities whose calls were traced; nil: none.
	Trace *tracing.Tracer
	// Now is the clock; default time.Now.
	Now func() time.Time
	// Random returns numbers in [0, 1) for jitter; default math/rand/v2.
	Random func() float64
}

// Limits bound one invocation. Zero fields mean the default.
type Limits struct {
	// Messages of a batch that are worked on at once. Default 16.
	Messages int
	// InFlight attempts of an invocation. Attempts wait for answers most of the
	// time, so it bounds sockets and memory, not CPU. Default 256.
	InFlight int
	// PerQueue is how many attempts all invocations of a queue in this process
	// have under way together. On Lambda a process has one invocation at a time;
	// where it has hundreds, it would run out of files. Each queue has its own,
	// so that a flood in one holds up no other. 0: no bound but InFlight.
	PerQueue int
	// PerHost attempts of an invocation at one host at once; where PerQueue is set, all
	// invocations of a queue have forty times as many. Small servers have few workers.
	// Default 8.
	PerHost int
	// Copies is from how many messages of an activity on a large body is stored once, and
	// not in each message. On AWS a write of the body costs as much as some 20 messages
	// with it. Default 20.
	Copies int
	// Attempt is the longest that one attempt takes, unless its protocol says
	// otherwise. Default 15 s.
	Attempt time.Duration
	// Reserve is kept back for writing records before the invocation's
	// deadline: nothing is begun unless an attempt and the reserve still fit.
	// Default 5 s.
	Reserve time.Duration
	// Flush is how long after its answer an outcome is noted in the journal at the
	// latest. It bounds the gap in which a crash leads to a second send. Default 0.9 s,
	// which leaves a tenth of a second for the write.
	Flush time.Duration
	// Quiet is how long after the last end of a recipient this process looks whether a large
	// activity is done, whose caller wants to know. 0: only the schedule looks, as on Lambda,
	// where a process sleeps between invocations. If it is not 0, outcomes that cannot be
	// recorded are kept beyond the end of their invocation.
	Quiet time.Duration
	// Cached is how long a host's state is trusted without another look.
	// Default cache.TTL.
	Cached time.Duration
	// Lease is how long a unit is claimed when an invocation has no deadline.
	// Default 1 min.
	Lease time.Duration
	// MaxReceives tells after how many receives a queue gives a message to its
	// dead letters; nil or 0 if it never does. In the last 75 of them the engine
	// itself gives the message up, with a record.
	MaxReceives func(queue.Name) int
}

// Complete returns l with defaults for what is zero.
func (l Limits) Complete() Limits {
	l.Messages = cmp.Or(l.Messages, 16)
	l.InFlight = cmp.Or(l.InFlight, 256)
	l.PerHost = cmp.Or(l.PerHost, 8)
	l.Copies = cmp.Or(l.Copies, 20)
	l.Attempt = cmp.Or(l.Attempt, 15*time.Second)
	l.Reserve = cmp.Or(l.Reserve, 5*time.Second)
	l.Flush = cmp.Or(l.Flush, 900*time.Millisecond)
	l.Cached = cmp.Or(l.Cached, cache.TTL)
	l.Lease = cmp.Or(l.Lease, time.Minute)
	if l.MaxReceives == nil {
		l.MaxReceives = func(queue.Name) int { return 0 }
	}
	return l
}

// Engine delivers. It is safe for concurrent use by several invocations, which share only
// Hosts, the schedulers and the bodies.
type Engine struct {
	Config
	intake  *intake.Intake
	lessons lessons
	bodies  *bodies.Bodies
	slots   *ratelimit.Stash
	quiet   quiet
	kept    *keeper

	schedulers *schedulers
}

// New returns an engine.
func New(c Config) *Engine {
	c.Limits = c.Limits.Complete()
	c.Rules = c.Rules.Complete()
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Float64
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Meter == nil {
		c.Meter = unmetered{}
	}
	if c.Hosts == nil {
		c.Hosts = cache.New(c.Servers, c.Rules, c.Limits.Cached, c.Now, c.Log)
	}
	return &Engine{
		Config: c, schedulers: newSchedulers(c.Limits, c.Rules.Budget, c.Now),
		lessons: lessons{hosts: c.Hosts, limiter: c.Limiter, rules: c.Rules, now: c.Now},
		slots:   &ratelimit.Stash{Booker: c.Limiter, Now: c.Now}, bodies: bodies.New(c.Ledger, c.Limits.Copies),
		quiet: quiet{looks: map[activity.ID]*time.Timer{}},
		kept:  newKeeper(c.Writable, c.Log),
		intake: &intake.Intake{
			Queues: c.Queues, Ledger: c.Ledger, Agenda: c.Agenda, Payloads: c.Payloads, Protocols: c.Protocols, Events: c.Events,
			MaxReceives: c.Limits.MaxReceives, Log: c.Log, Meter: c.Meter, Now: c.Now, Random: c.Random,
		},
	}
}

// delayed returns how long until at, at least 0.
func (e *Engine) delayed(at time.Time) time.Duration { return max(0, at.Sub(e.Now())) }
