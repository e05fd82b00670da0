// Package world is a world in which to test the delivery engine: queues and a table on a
// clock that the test moves, other people's servers in memory, and a loop in place of
// Lambda and its schedule. An outage of days takes less than a second, and every run is
// the same.
//
// A new test scripts the servers, sends, lets time pass and says what must have become of
// each recipient:
//
//	func TestAServerThatIsDownForAnHourGetsWhatItMissed(t *testing.T) {
//		w := world.New(t, world.Options{})
//		w.Servers.Script("down.example", world.Down)
//		id := w.Send(w.Activity("Create"), "https://down.example/inbox")
//		w.Run(time.Hour, time.Minute)
//		w.Servers.Script("down.example", nil) // accepts everything
//		w.Run(25*time.Hour, time.Minute)
//		w.Expect(id, map[string]activity.State{"https://down.example/inbox": activity.Delivered})
//	}
//
// A test of what only SQLite does sets Options.Engine to engines.Embedded().
package world

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/app/topology"
	"fedpost/internal/deliver"
	"fedpost/internal/deliver/coalesce"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/deliver/intake"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/queue/queuetest"
	"fedpost/internal/engine/table"
	"fedpost/internal/healthcheck"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/protocol"
	"fedpost/internal/protocol/retry"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
	"fedpost/internal/servers/ratelimit"
	"fedpost/internal/store"
	"fedpost/internal/testkit/engines"
	"fedpost/internal/testkit/faults"
)

// Days in a world make much garbage, and little that stays: a sixth of the processor time, for
// 300 MB at most.
func init() { debug.SetGCPercent(400) }

// Start is when every world begins.
var Start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// World is one deployment of fedpost and the servers around it.
type World struct {
	T           testing.TB
	Clock       *queuetest.Clock
	Now         func() time.Time // the clock's, if not replaced
	Engine      engines.Instance
	Store       *store.Store
	Servers     *Servers
	Deliver     *deliver.Engine
	DeadLetters *DeadLetters
	Limits      ratelimit.Limiter

	Redundancy coalesce.Filter
	Log        *bytes.Buffer
	// Checks is the scheduled function.
	Checks *healthcheck.Runner
	// BatchSize of the event sources.
	BatchSize int

	config deliver.Config
	queues func(queue.Name) queue.Queue // as the engine sees them
	raw    *store.Store                 // beside the plan
	plan   *faults.Plan
	gap    gap
	next   schedule
	dead   healthcheck.Returner
	ids    int
	log    sync.Mutex
}

// Options change a world before it starts.
type Options struct {
	Policy retry.Policy
	Rules  circuit.Rules
	Limits deliver.Limits
	// Protocol replaces the servers in memory.
	Protocol protocol.Sender
	// Now replaces the manual clock.
	Now func() time.Time
	// Table wraps the engine's table, to count what it costs.
	Table func(table.Table) table.Table
	// Afterlife keeps dead letters in the store and the queues, and lets the schedule
	// revive them; without it they are only remembered.
	Afterlife bool
	// Plan counts and breaks the calls of the engine and the schedule.
	Plan *faults.Plan
	// Engine is the engine under the world, engines.Default if it is not set.
	Engine engines.Engine
	// QueueType is the type of the engine's queues.
	QueueType queue.Type
	// Path of the embedded engine's database. If Path is set, the embedded engine is the
	// default.
	Path string
	Seed uint64
}

// New makes a world.
func New(t testing.TB, o Options) *World {
	t.Helper()
	w := &World{T: t, Clock: queuetest.ClockAt(Start), Servers: newServers(), BatchSize: 10, Log: &bytes.Buffer{}}
	if w.Now = o.Now; w.Now == nil {
		w.Now = w.Clock.Now
	}
	w.Servers.now = w.Now
	configs := map[queue.Name]queue.Config{}
	for _, name := range queue.Names {
		q := topology.Of(name)
		configs[name] = queue.Config{Visibility: q.Visibility, MaxReceives: q.MaxReceives, Retention: q.Retention}
	}
	if o.Engine.Name == "" && o.Path == "" {
		o.Engine = engines.Default()
	}
	w.Engine = o.Engine.Open(t, engines.Options{Now: w.Now, Queues: configs, Type: o.QueueType, Path: o.Path})
	w.raw = store.New(w.Engine.Table(), w.Now)
	queues, tbl := w.Engine.Queue, w.Engine.Table()
	if w.plan = o.Plan; w.plan != nil {
		queues, tbl = w.Engine.Under(w.plan)
		w.Servers.plan = w.plan
	}
	if o.Table != nil {
		tbl = o.Table(tbl)
	}
	w.queues, w.Store = queues, store.New(tbl, w.Now)
	if o.Policy.Tries == 0 {
		o.Policy = retry.ActivityPub()
	}
	if o.Limits.MaxReceives == nil {
		o.Limits.MaxReceives = func(n queue.Name) int { return topology.Of(n).MaxReceives }
	}
	if o.Protocol == nil {
		o.Protocol = w.Servers
	}
	random := newRandom(o.Seed)
	log := slog.New(slog.NewTextHandler(lockedWriter{w}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	w.DeadLetters = &DeadLetters{}
	w.Redundancy = coalesce.Filter{Store: w.Store, Now: w.Now, Pending: o.Rules.Longest(o.Policy.GiveUp), Remember: 30 * 24 * time.Hour}
	w.Limits = ratelimit.Limiter{Store: w.Store, Now: w.Now}
	w.config = deliver.Config{
		Ports: intake.Ports{
			Queues: func(n queue.Name) deliver.Queue { return queues(n) },
			Ledger: w.Store, Agenda: w.Store, Payloads: w.Store, Log: log, Now: w.Now, Random: random,
			Protocols: protocol.Set{{Name: activity.ActivityPub, Delivery: protocol.Delivery{Sender: o.Protocol, Policy: o.Policy}}},
		},
		Servers: w.Store, DeadLetters: w.DeadLetters, Events: w.Store,
		Lot: &parking.Lot{
			Store: w.Store, Servers: w.Store, Queues: func(n queue.Name) queue.Sender { return queues(n) },
			Rules: o.Rules.Complete(), Now: w.Now, Random: random, Log: log,
		},
		Coalesce: &w.Redundancy, Limiter: &w.Limits, Rules: o.Rules, Limits: o.Limits, Meter: Unmetered{},
	}
	if o.Afterlife {
		senders := func(n queue.Name) queue.Sender { return queues(n) }
		w.config.DeadLetters = deadletter.Writer{Store: w.Store, Queues: senders, Keep: deadletter.Longest}
		w.dead = deadletter.Returner{Store: w.Store, Ledger: w.Store, Lot: w.config.Lot, Log: log, GiveUp: w.config.Protocols.GiveUp}
	}
	w.Restart()
	return w
}

// Restart starts the process anew: everything in its memory is lost.
func (w *World) Restart() {
	w.Deliver = deliver.New(w.config)
	w.Checks = healthcheck.New(healthcheck.Config{
		Servers: w.Store, Events: w.Store, Lot: w.config.Lot, Limits: w.Limits, Prober: w.Servers, Dead: w.dead, Rules: w.config.Rules, Log: w.config.Log, Meter: w.config.Meter, Now: w.Now,
	})
}

// Unmetered counts nothing.
type Unmetered struct{}

// Attempted implements deliver.Meter.
func (Unmetered) Attempted(activity.Activity, outcome.Outcome, activity.State) {}

// Counted implements deliver.Meter and healthcheck.Meter.
func (Unmetered) Counted(string, int) {}

// Recorded implements deliver.Meter.
func (Unmetered) Recorded([]ledger.Recipient) {}

// Flush implements deliver.Meter and healthcheck.Meter.
func (Unmetered) Flush(context.Context) {}

// Raw returns the store beside the plan, whose calls nothing breaks.
func (w *World) Raw() *store.Store { return w.raw }

// Config returns the configuration of the world's delivery engine.
func (w *World) Config() deliver.Config { return w.config }

type lockedWriter struct{ w *World }

func (l lockedWriter) Write(b []byte) (int, error) {
	l.w.log.Lock()
	defer l.w.log.Unlock()
	return l.w.Log.Write(b)
}

// Logged returns how many lines were logged.
func (w *World) Logged() int {
	w.log.Lock()
	defer w.log.Unlock()
	return bytes.Count(w.Log.Bytes(), []byte("\n"))
}

func newRandom(seed uint64) func() float64 {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(seed, 1))
	return func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return r.Float64()
	}
}

// DeadLetters is a deliver.DeadLetterWriter that only remembers.
type DeadLetters struct {
	mu     sync.Mutex
	Deaths []deliver.Death
}

// Add implements deliver.DeadLetterWriter.
func (g *DeadLetters) Add(_ context.Context, ds []deliver.Death) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Deaths = append(g.Deaths, ds...)
	return nil
}

// Activity makes an activity.
func (w *World) Activity(typ string) activity.Activity {
	w.ids++
	id := activity.DerivedID(w.Now(), fmt.Sprint("activity ", w.ids))
	return activity.Activity{
		ID: id, Protocol: activity.ActivityPub, Type: typ, Body: fmt.Sprintf(`{"type":%q,"n":%d}`, typ, w.ids),
		Options: activity.Options{Priority: activity.Normal}, CreatedAt: w.Now(),
	}
}

// Send enqueues an activity as package enqueue does.
func (w *World) Send(a activity.Activity, inboxes ...string) activity.ID {
	w.T.Helper()
	ctx := context.Background()
	targets := make([]activity.Target, len(inboxes))
	for i, in := range inboxes {
		targets[i] = activity.Target{Inbox: in, Stands: 1}
	}
	r := ledger.Record{
		ID: a.ID, Protocol: a.Protocol, Type: a.Type, CreatedAt: a.CreatedAt, ExpiresAt: a.ExpiresAt,
		Recipients: len(inboxes), Targets: len(inboxes), Chunk: ledger.ChunkSize, OrderingKey: a.OrderingKey, Forget: a.CreatedAt.Add(60 * 24 * time.Hour),
	}
	if a.Ordered() {
		r.Chunk = 1
	}
	if len(targets) <= r.Chunk {
		r.Inline = targets
	}
	if err := w.raw.CreateActivity(ctx, r); err != nil {
		w.T.Fatal(err)
	}
	if err := w.Redundancy.Accepted(ctx, a, targets); err != nil {
		w.T.Fatal(err)
	}
	m := message.Message{Activity: &a}
	if !a.Ordered() && len(targets) <= ledger.ChunkSize {
		m.Deliver = &message.Delivery{Position: message.Whole, Targets: targets}
	} else {
		m.FanOut = &message.FanOut{Targets: targets}
	}
	out := queue.Message{Body: Encode(w.T, m)}
	name := message.QueueOf(a)
	if w.Engine.Queue(name).Capabilities().NativeDeduplication {
		out.OrderingKey, out.DeduplicationKey = cmp.Or(a.OrderingKey, string(a.ID)), string(a.ID)
	}
	if w.Engine.Queue(name).Capabilities().Fair {
		out.OrderingKey = m.Sender()
	}
	if err := w.Engine.Queue(name).Send(ctx, out); err != nil {
		w.T.Fatal(err)
	}
	return a.ID
}

// Encode encodes a message.
func Encode(t testing.TB, m message.Message) string {
	t.Helper()
	body, err := message.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// ARN returns the ARN of a queue, as events name it.
func ARN(n queue.Name) string { return "arn:aws:sqs:local:000000000000:fedpost-" + string(n) }

// Sources maps ARNs to queues.
func Sources() map[string]queue.Name {
	m := map[string]queue.Name{}
	for _, n := range topology.Sources {
		m[ARN(n)] = n
	}
	return m
}
