// Package memory is an engine of maps and slices: queues with the semantics of
// SQS and a table with those of DynamoDB, as the suites queuetest and tabletest
// have them, and nothing else.
//
// The simulation stands on it. It has no goroutine, no file and no clock of its
// own, so a call is over at once and its result depends on nothing but the calls
// before it; and it is fifty times as fast as SQLite, which is fifty times as
// many stories a second. It tells when it next has something to hand out, so that
// idle weeks are skipped instead of polled through.
package memory

import (
	"fmt"
	"sync"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
)

// Queue settings, as an operator sets them.
type QueueConfig struct {
	Visibility  time.Duration
	MaxReceives int // 0: never a dead letter
	Retention   time.Duration
}

// Engine is empty when made.
type Engine struct {
	mu      sync.Mutex
	now     func() time.Time
	queues  map[queue.Name]*mq
	items   map[table.Key]table.Item
	parts   map[string][]string // sort keys by partition, sorted
	due     map[table.Key]table.Due
	dueNext time.Time // the earliest of due, if dueKnown
	known   bool
	seq     int64
}

// New returns an engine on a clock. Queues that configs leaves out hide for 30 s,
// keep for 14 days and give up after 10 receives.
func New(now func() time.Time, configs map[queue.Name]QueueConfig) *Engine {
	e := &Engine{
		now: now, queues: map[queue.Name]*mq{},
		items: map[table.Key]table.Item{}, parts: map[string][]string{}, due: map[table.Key]table.Due{},
	}
	for _, n := range queue.Names {
		c, ok := configs[n]
		if !ok {
			c.MaxReceives = 10
		}
		if c.Visibility == 0 {
			c.Visibility = 30 * time.Second
		}
		if c.Retention == 0 {
			c.Retention = 14 * 24 * time.Hour
		}
		if n == n.DeadLetter() {
			c.MaxReceives = 0
		}
		e.queues[n] = &mq{
			Engine: e, name: n, config: c, bell: make(chan struct{}),
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

// Recall makes visible what is in flight, for a process that has the engine to
// itself and starts anew.
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

// Receivable returns when a queue next has something to receive: not after now if
// it has already, zero if nothing is on it.
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
		if !n.FIFO() && (first.IsZero() || m.visible.Before(first)) {
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
