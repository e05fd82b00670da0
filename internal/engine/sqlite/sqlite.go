// Package sqlite is the embedded engine: queues with the semantics of SQS and a
// table with those of DynamoDB, in one SQLite file. The tests and `fedpost up` run on it, also
// for a small server in production.
//
// Durability comes first: a 202 is given only after a commit that was synced to
// the disk (WAL with synchronous=FULL), so neither kill -9 nor a power cut loses
// an accepted activity. Group commit makes that affordable: all writes go through
// one goroutine, which puts the writes that wait into one transaction, undoes those
// that fail alone, and syncs once for all of them. A commit that sends a message also makes the
// receive that waits for it. Reads, and writes that a power cut may undo
// (claims, deletions of messages and changes of their visibility), are answered before that sync.
//
// The engine keeps AWS's limits even where SQLite has none, so that nothing works
// here that would fail in production. The suites queuetest and tabletest hold
// all engines to the same contract.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/engine/wakeup"
)

// Memory is the path of an engine that is kept in memory and lost on Close.
const Memory = ":memory:"

// ErrClosed says that the engine was closed before the call began: the call did
// nothing.
var ErrClosed = errors.New("the embedded engine is closed")

// Options of an engine. The zero value is ready to use.
type Options struct {
	// Now is the clock; time.Now if nil.
	Now func() time.Time
	// Queues holds the settings of queues by name. Other queues have those of queue.Configs.
	Queues map[queue.Name]queue.Config
	// Type is the type of the queues. A file may be opened with another type than
	// before: its messages stay.
	Type queue.Type
	// Log receives what operators should know; slog.Default if nil.
	Log *slog.Logger
}

// Engine is an open database.
type Engine struct {
	now     func() time.Time
	configs map[queue.Name]queue.Config
	typ     queue.Type
	order   map[queue.Name]*queue.FairOrder
	log     *slog.Logger
	logSaid int64 // how large the write-ahead log was said to be; of the writer's goroutine

	writer  *writer
	readers *readers // nil in memory: there is only the writer's connection
	wake    *wakeup.Notifier
	release func() error // of the lock on the file

	close    sync.Once
	closeErr error
}

// Open opens the engine on the file at path, or in memory if path is Memory. It
// creates a missing file, but not a missing directory. Only one process at a time
// can have a file open.
func Open(_ context.Context, path string, o Options) (*Engine, error) {
	e := &Engine{now: o.Now, configs: queue.Configs(o.Queues), typ: o.Type, order: o.Type.FairOrders(), log: o.Log, wake: wakeup.New()}
	if e.log == nil {
		e.log = slog.Default()
	}
	if e.now == nil {
		e.now = time.Now
	}
	if err := e.open(path); err != nil {
		return nil, fmt.Errorf("open the data file %s: %w", path, errors.Join(cannotOpen(path, err), e.Close()))
	}
	return e, nil
}

func (e *Engine) Queue(name queue.Name) queue.Queue {
	c, ok := e.configs[name]
	if !ok {
		panic(fmt.Sprintf("embedded: there is no queue %q", name))
	}
	return &mq{Engine: e, name: name, config: c, fifo: e.typ.FIFO(name), order: e.order[name]}
}

// Table returns the table.
func (e *Engine) Table() table.Table { return &tbl{e} }

// Close finishes the writes that have begun and closes the file. Later calls
// return ErrClosed.
func (e *Engine) Close() error {
	e.close.Do(func() {
		var errs []error
		if e.writer != nil {
			e.writer.stop()
		}
		if e.readers != nil {
			errs = append(errs, e.readers.stop())
		}
		if e.writer != nil {
			errs = append(errs, e.writer.session.close())
		}
		if e.release != nil {
			errs = append(errs, e.release())
		}
		e.closeErr = errors.Join(errs...)
	})
	return e.closeErr
}

// write runs do in a transaction and returns after the commit reached the disk.
// After any error but queue.ErrUncertain, do has changed nothing. If another write of its group has
// to be undone, do runs again.
func (e *Engine) write(ctx context.Context, do func(*session) error) error {
	return e.submit(ctx, newJob(synced, do))
}

// writeUnsynced is write for what a power cut may undo, together with all later writes. It
// returns after a commit that the next write has synced, and so waits for no disk.
func (e *Engine) writeUnsynced(ctx context.Context, do func(*session) error) error {
	return e.submit(ctx, newJob(written, do))
}

func (e *Engine) submit(ctx context.Context, j *job) error {
	if e.writer == nil {
		return errToRead
	}
	return e.writer.submit(ctx, j)
}

// readSoon runs do, which reads little and does not write, on the writer's session: that session
// has in memory what it wrote, and the readers would look for it in the file after each commit.
// It runs between two commits, and so sees no write that may be undone. While a commit waits for
// the disk, a reader may be sooner: beside a large fan-out, a delivery would wait 10 ms for each of
// its reads.
func (e *Engine) readSoon(ctx context.Context, do func(*session) error) error {
	if e.writer == nil {
		return e.read(ctx, do)
	}
	j := newJob(read, do)
	if e.readers != nil && e.writer.busy.Load() {
		select {
		case e.readers.jobs <- j: // whoever takes it first does it
		default:
		}
	}
	return e.writer.submit(ctx, j)
}

// read runs do, which must not write, on the committed data.
func (e *Engine) read(ctx context.Context, do func(*session) error) error {
	if e.readers == nil {
		return e.readSoon(ctx, do)
	}
	return e.readers.submit(ctx, do)
}
