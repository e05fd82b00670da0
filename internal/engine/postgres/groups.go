package postgres

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/wakeup"
)

const (
	// writers is how many transactions of small writes a process has under way. While they
	// commit, the next writes gather: more writers would make smaller groups, which cost more
	// for each write. See bench/README.md.
	writers = 3
	// readers is how many round trips of small reads a process has under way.
	readers = 3
	// maxGroup bounds how many calls share a transaction, and so how long the first of them
	// waits for the others, and how many locks they hold together.
	maxGroup = 64
)

// part is what a call sends to the server about one row, or about none that others lock. No
// statement needs the result of another.
type part struct {
	// locks orders the parts of a transaction by the rows that they lock, so that processes
	// wait for each other in one order.
	locks string
	queue func(*pgx.Batch)
}

// op is what one call sends to the server in a round trip that it may share with others.
type op struct {
	parts []part
	to    queue.Name // the queue to which it sends one message that is visible; empty: none
	err   error
	done  chan struct{}
}

func one(locks string, queue func(*pgx.Batch)) *op {
	return &op{parts: []part{{locks, queue}}, done: make(chan struct{})}
}

// groups lets calls that wait at the same time share a round trip.
type groups struct {
	ops     chan *op
	stopped chan struct{}
	done    sync.WaitGroup
	once    sync.Once
}

func newGroups(workers int, run func([]*op)) *groups {
	g := &groups{ops: make(chan *op), stopped: make(chan struct{})}
	for range workers {
		g.done.Go(func() { g.work(run) })
	}
	return g
}

func (g *groups) work(run func([]*op)) {
	var group []*op
	for {
		group = group[:0]
		select {
		case o := <-g.ops:
			group = append(group, o)
		case <-g.stopped:
			return
		}
	waiting:
		for len(group) < maxGroup {
			select {
			case o := <-g.ops:
				group = append(group, o)
			default:
				break waiting
			}
		}
		run(group)
		for _, o := range group {
			close(o.done)
		}
	}
}

// submit is run for an op of one part.
func (g *groups) submit(ctx context.Context, locks string, queue func(*pgx.Batch)) error {
	return g.run(ctx, one(locks, queue))
}

// submitAll is run for an op of several parts, which happen together or not at all.
func (g *groups) submitAll(ctx context.Context, parts []part) error {
	return g.run(ctx, &op{parts: parts, done: make(chan struct{})})
}

// run hands an op over and waits for its end. A caller that gives up before its op was
// taken knows that nothing was sent.
func (g *groups) run(ctx context.Context, o *op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-g.stopped:
		return ErrClosed
	default:
	}
	select {
	case g.ops <- o:
		<-o.done
		return o.err
	case <-g.stopped:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *groups) stop() {
	g.once.Do(func() { close(g.stopped) })
	g.done.Wait()
}

// write runs a group, and in its transaction the receives that wait for the messages that it sends.
func (e *Engine) write(group []*op) {
	sent, given := map[queue.Name]int{}, len(group)
	for _, o := range group {
		if o.to != "" {
			sent[o.to]++
		}
	}
	for name, n := range sent {
		var parked []wakeup.Parked
		parked, sent[name] = e.wake.Unpark(name, n)
		for _, p := range parked {
			group = append(group, p.(*taking).op)
		}
	}
	e.commit(group)
	for _, o := range group[given:] {
		close(o.done)
	}
	for name, left := range sent {
		e.wakeReceivers(name, left)
	}
}

// commit runs a group in one transaction. If the server refuses a statement, each op runs in a
// transaction of its own, so that only the refused op fails.
func (e *Engine) commit(group []*op) {
	err := e.batch(context.Background(), func(b *pgx.Batch) { queueAll(b, group) })
	if refused(err) && len(group) > 1 {
		for _, o := range group {
			e.commit([]*op{o})
		}
		return
	}
	for _, o := range group {
		o.err = err
	}
}

// read runs a group that only reads, outside of a transaction.
func (e *Engine) read(group []*op) {
	var err error
	for try := newTry(); ; {
		if err = e.readOnce(group); !try.again(err) {
			break
		}
	}
	if refused(err) && len(group) > 1 {
		for _, o := range group {
			e.read([]*op{o})
		}
		return
	}
	for _, o := range group {
		o.err = readable(err)
	}
}

func (e *Engine) readOnce(group []*op) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	conn, err := e.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	b := &pgx.Batch{}
	queueAll(b, group)
	return conn.SendBatch(ctx, b).Close()
}

func queueAll(b *pgx.Batch, group []*op) {
	var parts []part
	for _, o := range group {
		parts = append(parts, o.parts...)
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(a.locks, b.locks) })
	for _, p := range parts {
		p.queue(b)
	}
}

// refused reports whether the server refused a statement, or pgx its arguments or results.
func refused(err error) bool {
	if err == nil || errors.Is(err, queue.ErrUncertain) || passes(err) {
		return false
	}
	_, unconnected := errors.AsType[*pgconn.ConnectError](err)
	return !unconnected && !broken(err) && !errors.Is(err, ErrClosed)
}

// broken reports whether a connection broke, or the server was silent for too long.
func broken(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, pgconn.ErrConnClosed)
}
