// Package memory is an engine of maps and slices for the simulation: queues with the
// semantics of SQS and a table with those of DynamoDB, as the suites queuetest and
// tabletest require.
//
// The engine has no goroutine, no file and no clock of its own, so the result of a call
// depends only on the calls before it. The engine is fifty times as fast as SQLite, so
// the simulation runs fifty times as many stories a second. The engine says when a message
// or an item becomes due next, so the simulation skips idle weeks instead of polling.
//
// A new test gives the engine a clock and the settings of the queues it cares about:
//
//	e := memory.New(clock.Now, map[queue.Name]queue.Config{queue.Normal: {MaxReceives: 2}})
//	s := store.New(e.Table(), clock.Now)
//	… // the work, on e.Queue(queue.Normal) and s
//	items := e.Items("DH#") // what is stored under a prefix
package memory

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
)

// Engine is empty when made.
type Engine struct {
	mu      sync.Mutex
	now     func() time.Time
	queues  map[queue.Name]*mq
	typ     queue.Type
	items   map[table.Key]table.Item
	parts   map[string][]string // sort keys by partition, sorted
	due     map[table.Key]table.Due
	dueNext time.Time // the earliest of due, if dueKnown
	known   bool
	seq     int64
	undo    []func() // the writes since the last synced one
}

// New returns an engine on a clock, with standard queues. A queue that configs leaves out has a
// visibility timeout of 30 s, a retention of 14 days, and 10 receives before a message becomes a
// dead letter.
func New(now func() time.Time, configs map[queue.Name]queue.Config) *Engine {
	return NewOf(queue.Standard, now, configs)
}

// NewOf is New with queues of a type.
func NewOf(typ queue.Type, now func() time.Time, configs map[queue.Name]queue.Config) *Engine {
	e := &Engine{
		now: now, typ: typ, queues: map[queue.Name]*mq{},
		items: map[table.Key]table.Item{}, parts: map[string][]string{}, due: map[table.Key]table.Due{},
	}
	orders := typ.FairOrders()
	for n, c := range queue.Configs(configs) {
		e.queues[n] = &mq{
			Engine: e, name: n, config: c, fifo: typ.FIFO(n), order: orders[n], changed: make(chan struct{}),
			all: map[int64]*stored{}, groups: map[string]*group{}, windows: map[string]time.Time{},
		}
	}
	return e
}

// Queue returns the queue of a name of package queue.
func (e *Engine) Queue(n queue.Name) queue.Queue {
	q, ok := e.queues[n]
	if !ok {
		panic(fmt.Sprintf("memory: there is no queue %q", n))
	}
	return q
}

// Table returns the table.
func (e *Engine) Table() table.Table { return &tbl{e} }

// Recall makes all messages in flight visible, for a restarted process that is the only
// user of the engine.
func (e *Engine) Recall() {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	for _, q := range e.queues {
		q.stirred = true
		for _, m := range q.all {
			if m.receives > 0 && m.visible.After(now) {
				m.visible = now
			}
		}
		for _, g := range q.groups {
			g.free = now
		}
	}
}

// CutPower undoes what a power cut may undo on SQLite: deletions of messages, changes of their
// visibility and unsynced items, back to the last other write.
func (e *Engine) CutPower() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, undo := range slices.Backward(e.undo) {
		undo()
	}
	e.undo = nil
}

// Receivable returns the time from which a queue has a message to receive: a time not
// after now if it has one already, zero if the queue is empty.
func (e *Engine) Receivable(n queue.Name) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	q := e.queues[n]
	if !q.stirred {
		return q.first
	}
	var first time.Time
	for _, g := range q.groups {
		if first.IsZero() || g.free.Before(first) {
			first = g.free
		}
	}
	for _, m := range q.all {
		if !q.fifo && (first.IsZero() || m.visible.Before(first)) {
			first = m.visible
		}
	}
	q.first, q.stirred = first, false
	return first
}

// NextDue returns when the first item of the due index is due, zero if none is.
func (e *Engine) NextDue() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.known {
		e.dueNext, e.known = time.Time{}, true
		for _, d := range e.due {
			if e.dueNext.IsZero() || d.At.Before(e.dueNext) {
				e.dueNext = d.At
			}
		}
	}
	return e.dueNext
}

// DueAfter returns when the first item of the due index is due that is due after a time, zero if
// none is.
func (e *Engine) DueAfter(t time.Time) (first time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range e.due {
		if d.At.After(t) && (first.IsZero() || d.At.Before(first)) {
			first = d.At
		}
	}
	return first
}
