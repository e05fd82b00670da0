// Package deliver takes queue messages to inboxes.
//
// Queues deliver at least once, the process may die between any two calls, and servers hang, refuse
// or vanish. Still every recipient gets an activity once, and its final state is recorded: a worker
// that comes later repeats the steps from the first, and repeating them is harmless. See
// docs/architecture.md, "Deliver".
//
// The package knows neither SQS nor HTTP: messages are queue.Received, and a protocol.Sender
// makes the attempts.
package deliver

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/deliver/admission"
	"fedpost/internal/deliver/bodies"
	"fedpost/internal/deliver/coalesce"
	"fedpost/internal/deliver/intake"
	"fedpost/internal/engine/queue"
	"fedpost/internal/message/tracing"
	"fedpost/internal/servers/cache"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
	"fedpost/internal/servers/ratelimit"
)

// Config configures an Engine. The fields up to Meter are required.
type Config struct {
	intake.Ports
	Servers     circuit.Store
	DeadLetters DeadLetterWriter
	Lot         *parking.Lot
	Meter       Meter

	// Writable returns an error if the table cannot be written. If set, outcomes that cannot be
	// recorded are kept and recorded later, and nothing new begins meanwhile.
	Writable func(context.Context) error

	// Events records what became of recipients; nil: nothing does.
	Events EventLog

	// Hosts caches the states of servers; default: a cache of Servers.
	Hosts *cache.Hosts

	// Coalesce finds deliveries that need not be sent. Limiter keeps deliveries to a host below
	// its rate limit. Both may be nil.
	Coalesce *coalesce.Filter
	Limiter  *ratelimit.Limiter

	// Worker is the prefix of the owners of this process's claims. On the embedded engine it
	// distinguishes this process from earlier ones, whose claims have lapsed.
	Worker string

	Rules  circuit.Rules
	Limits Limits
	// Trace makes spans for activities whose calls were traced; nil: none.
	Trace *tracing.Tracer
}

// Limits bound one invocation. Zero fields mean the default; MaxReceives is required.
type Limits struct {
	// Messages of a batch in work at once. Default 16.
	Messages int
	// InFlight attempts of an invocation under way at once, and as many spare ones (package
	// admission). It bounds sockets and memory, not CPU. Default 256: with the spare ones more than
	// a batch has recipients.
	InFlight int
	// PerQueue attempts of all invocations of a queue in this process under way at once, and as
	// many spare ones of all queues; 0: no bound but InFlight. A process with hundreds of
	// invocations would run out of files without it.
	PerQueue int
	// PerHost attempts of an invocation at one host at once. Where PerQueue is set, all invocations
	// share a multiple of it (admission.ForHundreds). Default 8.
	PerHost int
	// Copies is the number of messages from which on a large body is stored once and not copied
	// into each. On AWS a write of the body costs as much as about 20 messages with it. Default
	// 20.
	Copies int
	// Attempt is the time-out of an attempt, unless its protocol has another. Default 15 s.
	Attempt time.Duration
	// Flush is how long after its answer an outcome is in the journal at the latest. It bounds
	// the gap in which a crash leads to a second send. Default 0.9 s, which leaves 0.1 s for
	// the write.
	Flush time.Duration
	// Quiet is how long after its last final recipient a large activity is checked for being
	// done, if its caller asked for that event. 0: only the schedule checks, as on Lambda,
	// where a process is frozen between invocations. If it is not 0, outcomes that cannot be
	// recorded are kept beyond the end of their invocation.
	Quiet time.Duration
	// MaxReceives is after how many receives a queue moves a message to its dead letters; 0:
	// never. At the last 75 of them the engine itself gives the message up, with a record.
	MaxReceives func(queue.Name) int
}

// Complete returns l with defaults for what is zero.
func (l Limits) Complete() Limits {
	l.Messages = cmp.Or(l.Messages, 16)
	l.InFlight = cmp.Or(l.InFlight, 256)
	l.PerHost = cmp.Or(l.PerHost, 8)
	l.Copies = cmp.Or(l.Copies, 20)
	l.Attempt = cmp.Or(l.Attempt, 15*time.Second)
	l.Flush = cmp.Or(l.Flush, 900*time.Millisecond)
	return l
}

// bounds are those of a process with few invocations at once, as on Lambda, or with hundreds, if
// PerQueue is set.
func (l Limits) bounds(budget int) admission.Bounds {
	b := admission.Bounds{Places: l.InFlight, Spare: l.InFlight, PerHostMost: l.PerHost}
	if l.PerQueue > 0 {
		b = admission.ForHundreds(l.PerQueue, l.PerHost)
	}
	return b.Shared(runtime.GOMAXPROCS(0), budget)
}

// Engine delivers. It is safe for concurrent use.
type Engine struct {
	Config
	intake *intake.Intake
	bodies *bodies.Bodies
	slots  *ratelimit.Stash
	quiet  quiet
	kept   *keeper

	schedulers *admission.Schedulers
}

// New returns an engine.
func New(c Config) *Engine {
	c.Limits = c.Limits.Complete()
	c.Rules = c.Rules.Complete()
	if c.Hosts == nil {
		c.Hosts = cache.New(c.Servers, c.Rules, cache.TTL, c.Now, c.Log)
	}
	return &Engine{
		Config: c, schedulers: &admission.Schedulers{Bounds: c.Limits.bounds(c.Rules.Budget), Now: c.Now},
		slots: &ratelimit.Stash{Booker: c.Limiter, Now: c.Now}, bodies: bodies.New(c.Ledger, c.Limits.Copies),
		quiet:  quiet{looks: map[activity.ID]*time.Timer{}},
		kept:   newKeeper(c.Writable, c.Log),
		intake: &intake.Intake{Ports: c.Ports, Events: c.Events, MaxReceives: c.Limits.MaxReceives, Meter: c.Meter},
	}
}

// Ready waits while outcomes cannot be recorded, and while many messages of a queue wait for memory.
// Receivers of messages call it first.
func (e *Engine) Ready(ctx context.Context, from queue.Name) {
	for e.kept.closed() && ctx.Err() == nil {
		e.kept.await(ctx, keptRenewal)
	}
	e.schedulers.Of(from).Room(ctx)
}

// Stop says that the process is about to end. Messages that no queue takes back are not tried
// again; outcomes that cannot be recorded are kept until the end.
func (e *Engine) Stop() { e.kept.end() }

// Finish saves what this process has learnt about hosts and not saved yet. It is called when
// nothing is under way, before the process ends.
func (e *Engine) Finish(ctx context.Context) error {
	if err := e.Hosts.Flush(ctx); err != nil {
		return fmt.Errorf("save the states of hosts: %w", err)
	}
	return nil
}

func (e *Engine) delayed(at time.Time) time.Duration { return max(0, at.Sub(e.Now())) }

// lasting is ctx without the end of its invocation, if the process outlives its invocations: kept
// outcomes then outlive them, too.
func (e *Engine) lasting(ctx context.Context) context.Context {
	if e.Limits.Quiet > 0 {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// closing is ctx for what ends an invocation. On Lambda it leaves time for the answer: without
// one, all messages come back.
func (e *Engine) closing(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx = e.lasting(ctx)
	if end, ok := ctx.Deadline(); ok {
		return context.WithDeadline(ctx, end.Add(-answerReserve))
	}
	return context.WithTimeout(ctx, 2*keptTry)
}

// handBack hands a message back to its queue. If queue and table cannot be reached, a process that
// outlives its invocations tries again when the table is back: otherwise the message would stay
// hidden for its whole visibility timeout. It tries for about that long, and not when the process
// is about to end.
func (e *Engine) handBack(ctx context.Context, from queue.Name, m queue.Received, d intake.Disposition) {
	until := time.Now().Add(keptFor)
	for tries := 0; ; tries++ {
		once, cancel := e.closing(ctx)
		done := e.intake.HandBack(once, from, m, d)
		cancel()
		if done || e.Limits.Quiet == 0 || e.kept.writable == nil || !e.kept.pausedUntil(until, tries) {
			return
		}
	}
}
