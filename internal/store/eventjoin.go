package store

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"fedpost/internal/engine/table"
	"fedpost/internal/ledger/events"
)

// When a network fails, thousands of servers change in a moment, each with an event, and a log
// takes only some dozens of items a second. So changes that wait for the same log are written
// together: one item with all their events, in one transaction.

// mostJoined bounds the changes of a transaction: a conflict of one repeats the others.
const mostJoined = 25

// joinTime bounds one transaction.
const joinTime = 5 * time.Second

// joined is a change that waits to be written with an event, for as long as its caller does.
type joined struct {
	ctx   context.Context
	op    table.Op
	event events.Event
	done  chan error // of one element
}

// joining has the changes of one process that wait for one log.
type joining struct {
	mu      sync.Mutex
	waits   []*joined
	writing bool // a goroutine writes
}

// join writes an item and its event, together with others that wait.
func (s *Store) join(ctx context.Context, log int, op table.Op, e events.Event) error {
	c, j := &joined{ctx: ctx, op: op, event: e, done: make(chan error, 1)}, &s.joins[log]
	j.mu.Lock()
	j.waits = append(j.waits, c)
	if !j.writing {
		j.writing = true
		go s.writeJoined(log)
	}
	j.mu.Unlock()
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// writeJoined writes the changes that wait for a log until none waits.
func (s *Store) writeJoined(log int) {
	for {
		all := s.joins[log].next()
		if all == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), joinTime)
		for len(all) > 0 {
			all = s.appendJoined(ctx, log, all)
		}
		cancel()
	}
}

// next takes changes that can be written together: one for each item. nil: none waits, and the
// goroutine that asks ends.
func (j *joining) next() (all []*joined) {
	j.mu.Lock()
	defer j.mu.Unlock()
	keys := map[table.Key]bool{}
	j.waits = slices.DeleteFunc(j.waits, func(c *joined) bool {
		key := c.op.Put.Key
		if c.ctx.Err() != nil {
			return true // nobody waits for it any more, perhaps since a process was frozen
		}
		if keys[key] || len(all) == mostJoined {
			return false
		}
		keys[key], all = true, append(all, c)
		return true
	})
	j.writing = len(all) > 0
	return all
}

// appendJoined writes changes in one transaction and answers them. If one of them conflicts with
// the table, only that one is answered, and the others are returned.
func (s *Store) appendJoined(ctx context.Context, log int, all []*joined) (left []*joined) {
	now := s.now()
	t := appending{shard: log, since: now, until: now}
	es := make([]events.Event, len(all))
	for i, c := range all {
		t.with, es[i] = append(t.with, c.op), c.event
	}
	t.events = func(map[string]bool) ([]events.Event, error) { return es, nil }
	err := s.appendTo(ctx, t)
	if conflict, ok := errors.AsType[*table.ConflictError](err); ok {
		at := slices.IndexFunc(all, func(c *joined) bool { return c.op.Put.Key == conflict.Key })
		if at >= 0 {
			all[at].done <- err
			return slices.Delete(all, at, at+1)
		}
	}
	if len(all) > 1 && (errors.Is(err, table.ErrInvalid) || errors.Is(err, table.ErrTooLarge)) {
		for _, c := range all { // the fault is that of one
			s.appendJoined(ctx, log, []*joined{c})
		}
		return nil
	}
	for _, c := range all {
		c.done <- err
	}
	return nil
}
