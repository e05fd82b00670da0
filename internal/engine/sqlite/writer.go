package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/engine/wakeup"
)

// writer is the one goroutine that writes.
type writer struct {
	session *session
	path    string // of the data file
	wake    *wakeup.Notifier
	jobs    chan *job
	stopped chan struct{}
	done    chan struct{}
	once    sync.Once
	syncs   bool        // commits reach the disk before they return
	busy    atomic.Bool // a commit that reaches the disk is under way
}

func newWriter(s *session, path string, wake *wakeup.Notifier) *writer {
	w := &writer{session: s, path: path, wake: wake, jobs: make(chan *job, room), stopped: make(chan struct{}), done: make(chan struct{})}
	go w.run()
	return w
}

// stop lets the commit under way finish, and refuses all later jobs.
func (w *writer) stop() {
	w.once.Do(func() { close(w.stopped) })
	<-w.done
}

func (w *writer) submit(ctx context.Context, j *job) error { return submit(ctx, w.jobs, w.stopped, j) }

func (w *writer) run() {
	defer close(w.done)
	gathering := gatherer{jobs: w.jobs, now: time.Now}
	var group []*job
	for {
		select {
		case j := <-w.jobs:
			group = gathering.group(group[:0], j)
		case <-w.stopped:
			return
		}
		slices.SortStableFunc(group, func(a, b *job) int { return cmp.Compare(a.kind, b.kind) })
		for left := group; len(left) > 0; {
			n := 1
			for n < len(left) && left[n].kind == left[0].kind {
				n++
			}
			w.finish(left[0].kind, left[:n])
			left = left[n:]
		}
	}
}

// finish does jobs of one kind, and answers them.
func (w *writer) finish(k kind, group []*job) {
	if k == read {
		for _, j := range group {
			j.err = j.do(w.session)
			close(j.done)
		}
		return
	}
	group = append(group, w.receives(group)...)
	err := w.syncing(k == synced)
	if err == nil {
		w.busy.Store(k == synced)
		err = w.commit(group)
		w.busy.Store(false)
	}
	if err != nil {
		for _, j := range group {
			j.err = err
		}
	}
	try := sync.OnceValue(func() error { return writeBeside(w.path) })
	for _, j := range group {
		j.err = unwritable(j.err, try)
		close(j.done)
	}
}

// receives are those that wait for the messages that a group sends, in the same commit. Receivers
// that are not parked are woken after them, and so after all receives of the group.
func (w *writer) receives(group []*job) (all []*job) {
	sent := map[queue.Name]int{}
	for _, j := range group {
		if j.to != "" {
			sent[j.to]++
		}
	}
	for name, n := range sent {
		parked, left := w.wake.Unpark(name, n)
		for _, p := range parked {
			all = append(all, p.(*taking).job)
		}
		if left > 0 {
			all = append(all, newJob(synced, func(*session) error { w.wake.Wake(name, left); return nil }))
		}
	}
	return all
}

// syncing sets whether commits reach the disk, with all before them, before they return.
func (w *writer) syncing(on bool) error {
	if w.syncs == on {
		return nil
	}
	pragma := "PRAGMA synchronous=normal"
	if on {
		pragma = "PRAGMA synchronous=full"
	}
	err := w.session.script(pragma)
	if err == nil {
		w.syncs = on
	}
	return err
}

// errUndo says that a job has failed and may have changed something.
var errUndo = errors.New("a job has to be undone")

// commit runs a group in one transaction. A job that fails is undone alone; an
// error means that the whole group failed.
//
// A savepoint can cost as much as a job, and most jobs that fail have only found a
// condition that does not hold, and changed nothing. So a group runs without savepoints, and again
// with them if a job has to be undone.
func (w *writer) commit(group []*job) error {
	err := w.transact(group, w.trust)
	if errors.Is(err, errUndo) {
		err = w.transact(group, w.attempt)
	}
	return err
}

// transact runs the jobs of a group by run, whose error ends the transaction.
func (w *writer) transact(group []*job, run func(*job) error) error {
	if err := w.session.exec("BEGIN IMMEDIATE"); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	for _, j := range group {
		if err := run(j); err != nil {
			return w.abandon(err)
		}
	}
	if err := w.session.exec("COMMIT"); err != nil {
		return w.abandon(fmt.Errorf("commit: %w", err))
	}
	return nil
}

// trust runs one job without a savepoint. It returns errUndo unless the job succeeds, or
// fails on a condition before it has changed anything.
func (w *writer) trust(j *job) error {
	w.session.changed = false
	j.err = j.do(w.session)
	if j.err == nil || errors.Is(j.err, table.ErrConflict) && !w.session.changed {
		return nil
	}
	return fmt.Errorf("%w: %w", errUndo, j.err)
}

// attempt runs one job after a savepoint. The job's own failure is kept in the job; a returned
// error is the transaction's.
func (w *writer) attempt(j *job) error {
	if err := w.session.exec("SAVEPOINT job"); err != nil {
		return fmt.Errorf("savepoint: %w", err)
	}
	if j.err = j.do(w.session); j.err != nil {
		if err := w.session.exec("ROLLBACK TO job"); err != nil {
			return fmt.Errorf("undo after %w: %w", j.err, err)
		}
	}
	if err := w.session.exec("RELEASE job"); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}

// abandon rolls the transaction back after err. After some errors (disk full, I/O) SQLite has
// already ended it, and the ROLLBACK fails. If a transaction is still open after that, the next
// BEGIN fails.
func (w *writer) abandon(err error) error {
	if rollback := w.session.exec("ROLLBACK"); rollback != nil {
		return fmt.Errorf("%w: %w (roll-back: %w)", queue.ErrUncertain, err, rollback)
	}
	return fmt.Errorf("%w: %w", queue.ErrUncertain, err)
}
