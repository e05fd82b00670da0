// Package postgres is the engine on PostgreSQL: queues with the semantics of SQS and a table
// with those of DynamoDB, in a schema of its own in a database that an application may use
// for its own data. Any number of processes can work on one database.
//
// A message that is received stays in its table, hidden until its visibility timeout ends
// (a lease), as on SQS. No transaction stays open while a delivery is attempted: an attempt
// takes up to 15 s, and a transaction that is open for as long keeps VACUUM from removing
// the dead rows of all tables. Receivers claim rows with FOR UPDATE SKIP LOCKED, so they
// never wait for each other.
//
// The clock of the server decides what is visible, so processes whose clocks differ agree; its
// jumps are not followed (see clock).
//
// Every write is a transaction that reads its own number before it commits. If the
// connection is lost during COMMIT, the engine asks the server under that number what
// became of it (pg_xact_status). So an outcome is unknown only while the server cannot be reached,
// or if it has crashed since: then the number may be another transaction's.
// Small writes that wait at the same time share a transaction.
//
// The engine keeps AWS's limits, so that nothing works here that would fail there. The
// suites queuetest and tabletest hold all engines to the same contract.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/engine/wakeup"
)

const DefaultSchema = "fedpost"

// ErrClosed says that the engine was closed before the call began: the call did nothing.
var ErrClosed = errors.New("the PostgreSQL engine is closed")

// Options of an engine. The zero value is ready to use.
type Options struct {
	// Schema holds the tables; DefaultSchema if empty.
	Schema string
	// Now, for tests, is the clock of queues in place of the server's.
	Now func() time.Time
	// Clock is this process's clock, without the jumps of the machine's; time.Now if nil. While
	// the server's clock goes on otherwise, queues go by it.
	Clock func() time.Time
	// Queues holds the settings of queues by name, see queue.Configs.
	Queues map[queue.Name]queue.Config
	// Type is the type of the queues. A database may be opened with another type than
	// before: its messages stay.
	Type queue.Type
	// OutboxRetention is how long rows of the outbox stay once they are accepted;
	// DefaultOutboxRetention if 0.
	OutboxRetention time.Duration
	// AsIs leaves the schema as it is: one that is missing or older is refused.
	AsIs bool
	// Log receives what operators should know; slog.Default if nil.
	Log *slog.Logger
}

// Engine is an open database.
type Engine struct {
	schema  string
	asIs    bool
	clock   *clock
	configs map[queue.Name]queue.Config
	typ     queue.Type
	order   map[queue.Name]*queue.FairOrder
	log     *slog.Logger

	outboxRetention time.Duration

	pool     *pgxpool.Pool
	bare     bool // connections have no settings of their own
	horizon  horizon
	writes   *groups
	reads    *groups
	wake     *wakeup.Notifier
	notifier *notifier

	epoch      atomic.Pointer[string] // see number
	statements sync.Map               // text by text with DefaultSchema
	stopped    chan struct{}
	close      sync.Once
}

// Open connects to the database that url names, brings its schema up to date and starts to
// work. The error says what to do if the server cannot be used.
func Open(ctx context.Context, url string, o Options) (*Engine, error) {
	e := &Engine{
		schema: o.Schema, asIs: o.AsIs, configs: queue.Configs(o.Queues), typ: o.Type, order: o.Type.FairOrders(), log: o.Log,
		wake: wakeup.New(), stopped: make(chan struct{}), outboxRetention: cmp.Or(o.OutboxRetention, DefaultOutboxRetention),
	}
	e.schema = cmp.Or(e.schema, DefaultSchema)
	if e.log == nil {
		e.log = slog.Default()
	}
	e.clock = &clock{exact: o.Now, own: o.Clock, wall: time.Now, log: e.log}
	if o.Clock == nil {
		e.clock.own = time.Now
	}
	if err := e.open(ctx, url); err != nil {
		return nil, fmt.Errorf("open the PostgreSQL database: %w", err)
	}
	return e, nil
}

func (e *Engine) open(ctx context.Context, url string) error {
	config, err := poolConfig(url)
	if err != nil {
		return err
	}
	if e.pool, err = connect(ctx, config); err != nil {
		return err
	}
	e.bare = config.ConnConfig.RuntimeParams[idleSetting] == ""
	err = e.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error { return checkServer(ctx, c.Conn(), e.log) })
	if err == nil {
		err = e.migrate(ctx)
	}
	if err == nil {
		err = e.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error { _, err := e.learnEpoch(ctx, c); return err })
	}
	if err == nil {
		err = e.learn(ctx)
	}
	if err == nil {
		e.writes = newGroups(writers, e.write)
		e.reads = newGroups(readers, e.read)
	}
	if err == nil && !e.asIs {
		err = e.retype(ctx)
	}
	if err != nil {
		e.pool.Close()
		return err
	}
	e.notifier = newNotifier(e, config.ConnConfig)
	return nil
}

func (e *Engine) Queue(name queue.Name) queue.Queue { return e.queue(name) }

func (e *Engine) queue(name queue.Name) *mq {
	c, ok := e.configs[name]
	if !ok {
		panic(fmt.Sprintf("postgres: there is no queue %q", name))
	}
	q := &mq{Engine: e, name: name, config: c, fifo: e.typ.FIFO(name), leases: "lease", order: e.order[name]}
	if q.fifo {
		q.leases = "fifo_lease"
	}
	return q
}

// Table returns the table.
func (e *Engine) Table() table.Table { return &tbl{e} }

// Close finishes the writes that have begun and closes the connections. Later calls return
// ErrClosed.
func (e *Engine) Close() error {
	e.close.Do(func() {
		close(e.stopped)
		e.notifier.stop()
		e.writes.stop()
		e.reads.stop()
		e.pool.Close()
	})
	return nil
}

// sql returns a statement, which names the tables of DefaultSchema, for the engine's schema.
func (e *Engine) sql(text string) string {
	if e.schema == DefaultSchema {
		return text
	}
	if s, ok := e.statements.Load(text); ok {
		return s.(string)
	}
	s := strings.ReplaceAll(text, DefaultSchema+".", pgx.Identifier{e.schema}.Sanitize()+".")
	e.statements.Store(text, s)
	return s
}
