package sqlite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
)

// powered is a data file on which workers deliver, with the answers that they got.
type powered struct {
	*Engine
	path string

	mu        sync.Mutex // held while a group is committed
	synced    int        // bytes of the WAL that are on the disk for sure
	sent      map[string]bool
	delivered map[string]bool
	answers   int
	all       []cut
}

// commits does what writer.run does, and records how much of the WAL was synced.
func (p *powered) commits() {
	defer close(p.writer.done)
	gathering := gatherer{jobs: p.writer.jobs, now: time.Now}
	for {
		var group []*job
		select {
		case j := <-p.writer.jobs:
			group = gathering.group(nil, j)
		case <-p.writer.stopped:
			return
		}
		p.mu.Lock()
		for _, k := range []kind{read, written, synced} {
			some := slices.DeleteFunc(slices.Clone(group), func(j *job) bool { return j.kind != k })
			before := p.wal()
			p.writer.finish(k, some)
			if after := p.wal(); k == synced && after > before {
				p.synced = after
			}
		}
		p.mu.Unlock()
	}
}

func (p *powered) wal() int {
	info, err := os.Stat(p.path + "-wal")
	if err != nil {
		return 0
	}
	return int(info.Size())
}

// answered records what an answered call has made true, and cuts the power now and then.
func (p *powered) answered(err error, facts map[string]bool, name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	facts[name] = true
	if p.answers++; err != nil || p.answers%11 != 0 {
		return err
	}
	return p.cut()
}

func groupOf(name string) string { return name[:1] }

// work sends messages of one group, and delivers messages of all groups.
func (p *powered) work(ctx context.Context, group string) error {
	q, undone := p.Queue(queue.Ordered), map[string]bool{}
	for n := range 8 {
		name := fmt.Sprintf("%s-%02d", group, n)
		err := p.answered(q.Send(ctx, ordered(group, name, name)), p.sent, name)
		got, failed := q.Receive(ctx, queue.ReceiveOptions{Max: 2})
		if err := errors.Join(err, failed); err != nil {
			return err
		}
		for _, m := range got {
			it := table.Item{Key: table.Key{PK: "outcome", SK: m.Body}, Fence: "claim", Unsynced: true}
			err := p.answered(p.Table().Put(ctx, it, table.Cond{}), undone, m.Body)
			if n%5 == 4 {
				err = errors.Join(err, p.answered(q.ChangeVisibility(ctx, m.Handle, 0), undone, m.Body))
			} else {
				it.Fence, it.Unsynced = "delivered", false
				err = errors.Join(err, p.answered(p.Table().Put(ctx, it, table.Fenced("claim")), p.delivered, m.Body),
					p.answered(q.Delete(ctx, m.Handle), undone, m.Body))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// cut is what may be left after a power cut: the data file, and the WAL up to some byte after the
// last sync.
type cut struct {
	db, wal         []byte
	sent, delivered []string
}

func (p *powered) cut() error {
	db, err := os.ReadFile(p.path)
	wal, failed := os.ReadFile(p.path + "-wal")
	for _, end := range []int{p.synced, (p.synced + len(wal)) / 2} {
		p.all = append(p.all, cut{db, wal[:end], slices.Sorted(maps.Keys(p.sent)), slices.Sorted(maps.Keys(p.delivered))})
	}
	return errors.Join(err, failed)
}

// check opens what a power cut has left, as a restart does.
func (c cut) check(t *testing.T) error {
	path := file(t)
	if err := errors.Join(os.WriteFile(path, c.db, 0o600), os.WriteFile(path+"-wal", c.wal, 0o600)); err != nil {
		return err
	}
	e := openAt(t, path, Options{})
	q := e.Queue(queue.Ordered)
	if err := e.Recall(t.Context()); err != nil {
		return err
	}
	items, _, err := e.Table().Query(t.Context(), table.Range{PK: "outcome"})
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, it := range items {
		there[it.SK] = it.Fence == "delivered"
	}
	for _, name := range c.delivered {
		if !there[name] {
			return fmt.Errorf("%s was delivered, and is not recorded so", name)
		}
	}
	err = e.read(t.Context(), func(s *session) error {
		return s.each(`SELECT body FROM body`, nil, func(scan func(...any) error) error {
			var name string
			err := scan(&name)
			there[name] = true
			return err
		})
	})
	if err != nil {
		return err
	}
	for _, name := range c.sent {
		if !there[name] {
			return fmt.Errorf("%s was accepted, and is neither delivered nor waiting", name)
		}
		if err := q.Send(t.Context(), ordered(groupOf(name), name, name)); err != nil {
			return err
		}
	}
	last := map[string]string{}
	for {
		got, err := q.Receive(t.Context(), queue.ReceiveOptions{Max: queue.MaxBatch})
		if err != nil {
			return err
		}
		for _, m := range got {
			group := groupOf(m.Body)
			if m.Body <= last[group] {
				return fmt.Errorf("%s came again or out of order, behind %s", m.Body, last[group])
			}
			last[group] = m.Body
			if err := q.Delete(t.Context(), m.Handle); err != nil {
				return err
			}
		}
		if len(got) == 0 {
			return e.Close()
		}
	}
}

// TestAPowerCutUndoesNothingThatWasSynced opens what power cuts leave of a data file on which
// workers deliver.
func TestAPowerCutUndoesNothingThatWasSynced(t *testing.T) {
	e := openAt(t, file(t), Options{})
	e.writer.stop()
	// A checkpoint would sync the WAL.
	if err := e.writer.session.script("PRAGMA wal_autocheckpoint=0"); err != nil {
		t.Fatal(err)
	}
	p := powered{Engine: e, path: e.writer.path, sent: map[string]bool{}, delivered: map[string]bool{}}
	e.writer = &writer{session: e.writer.session, path: p.path, wake: e.wake, jobs: make(chan *job, room), stopped: make(chan struct{}), done: make(chan struct{})}
	go p.commits()
	var workers sync.WaitGroup
	for _, group := range []string{"a", "b", "c"} {
		workers.Go(func() {
			if err := p.work(t.Context(), group); err != nil {
				t.Error(err)
			}
		})
	}
	workers.Wait()
	for i, c := range p.all {
		if err := c.check(t); err != nil {
			t.Errorf("power cut %d of %d: %v", i+1, len(p.all), err)
		}
	}
	t.Logf("%d power cuts, %d messages, %d delivered", len(p.all), len(p.sent), len(p.delivered))
}
