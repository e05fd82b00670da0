package agenda_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/message/agenda"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// book is a Store in memory.
type book struct {
	tasks map[string]agenda.Task
	err   map[int]error // of a shard
	drops error
}

func newBook(ts ...agenda.Task) *book {
	b := &book{tasks: map[string]agenda.Task{}, err: map[int]error{}}
	for _, t := range ts {
		b.tasks[t.ID] = t
	}
	return b
}

func (b *book) PutTask(_ context.Context, t agenda.Task) error {
	b.tasks[t.ID] = t
	return nil
}

func (b *book) DueTasks(_ context.Context, shard int, now time.Time, limit int) ([]agenda.Task, error) {
	var due []agenda.Task
	for _, t := range b.tasks {
		if t.Shard() == shard && !t.DueAt.After(now) {
			due = append(due, t)
		}
	}
	slices.SortFunc(due, func(x, y agenda.Task) int { return strings.Compare(x.ID, y.ID) })
	return due[:min(limit, len(due))], b.err[shard]
}

func (b *book) DropTasks(_ context.Context, ts []agenda.Task) error {
	if b.drops != nil {
		return b.drops
	}
	for _, t := range ts {
		delete(b.tasks, t.ID)
	}
	return nil
}

// outbox is a queue that refuses some bodies.
type outbox struct {
	queue.Sender
	sent   []queue.Message
	refuse map[string]bool
	typ    queue.Type
}

func (o *outbox) Capabilities() queue.Capabilities { return o.typ.Of(queue.Normal) }

func (o *outbox) SendBatch(_ context.Context, ms []queue.Message) []error {
	errs := make([]error, len(ms))
	for i, m := range ms {
		if o.refuse[m.Body] {
			errs[i] = queue.ErrNotSent
			continue
		}
		o.sent = append(o.sent, m)
	}
	return errs
}

func releaser(b *book, queues map[queue.Name]queue.Sender) *agenda.Releaser {
	return &agenda.Releaser{Store: b, Queues: queues, Log: slog.New(slog.DiscardHandler)}
}

func task(i int) agenda.Task {
	return agenda.Task{ID: fmt.Sprintf("task-%03d", i), Queue: queue.Normal, Body: fmt.Sprint(i), DueAt: noon}
}

func TestAllThatIsDueIsReleasedHoweverMuch(t *testing.T) {
	b, o := newBook(), &outbox{}
	for i := range 500 {
		one := task(i)
		if i%5 == 0 {
			one.DueAt = noon.Add(time.Second)
		}
		b.tasks[one.ID] = one
	}
	r := releaser(b, map[queue.Name]queue.Sender{queue.Normal: o})
	told := 0
	r.Released = func(context.Context, agenda.Task) { told++ }
	n, err := r.Release(t.Context(), noon)
	if err != nil || n != 400 || len(o.sent) != 400 || told != 400 || len(b.tasks) != 100 {
		t.Errorf("released %d, sent %d, told of %d, left %d: %v", n, len(o.sent), told, len(b.tasks), err)
	}
}

func TestWhatCannotBeSentStaysAndTheOtherShardsGoOn(t *testing.T) {
	b, o := newBook(), &outbox{refuse: map[string]bool{"7": true}}
	for i := range 40 {
		b.tasks[task(i).ID] = task(i)
	}
	r := releaser(b, map[queue.Name]queue.Sender{queue.Normal: o})
	n, err := r.Release(t.Context(), noon)
	if !queue.NotSent(err) || !strings.Contains(err.Error(), "task-007") {
		t.Errorf("got %v", err)
	}
	if _, there := b.tasks["task-007"]; !there || len(b.tasks) != 1 || n != 39 {
		t.Errorf("released %d, left %v", n, b.tasks)
	}
	o.refuse = nil
	if n, err := r.Release(t.Context(), noon); n != 1 || err != nil {
		t.Errorf("the next run released %d, %v", n, err)
	}
}

func TestAShardThatCannotBeReadDoesNotStopTheOthers(t *testing.T) {
	b, o := newBook(), &outbox{}
	for i := range 40 {
		b.tasks[task(i).ID] = task(i)
	}
	outage := errors.New("outage")
	b.err[1] = outage
	n, err := releaser(b, map[queue.Name]queue.Sender{queue.Normal: o}).Release(t.Context(), noon)
	if !errors.Is(err, outage) || n == 0 || n+len(b.tasks) != 40 {
		t.Errorf("released %d, left %d, %v", n, len(b.tasks), err)
	}
}

func TestARunThatCannotForgetEnds(t *testing.T) {
	b, o := newBook(task(1)), &outbox{}
	b.drops = errors.New("outage")
	n, err := releaser(b, map[queue.Name]queue.Sender{queue.Normal: o}).Release(t.Context(), noon)
	if n != 1 || !errors.Is(err, b.drops) || len(o.sent) != 1 {
		t.Errorf("released %d, sent %d, %v", n, len(o.sent), err)
	}
}

func TestAnUnknownQueueIsAnErrorThatNamesIt(t *testing.T) {
	b := newBook(task(1))
	n, err := releaser(b, nil).Release(t.Context(), noon)
	if n != 0 || err == nil || !strings.Contains(err.Error(), `"normal"`) || len(b.tasks) != 1 {
		t.Errorf("released %d, left %d, %v", n, len(b.tasks), err)
	}
}

// TestATaskIsReleasedToAQueueOfAnotherType: the type of an installation's queues may be
// changed while tasks wait.
func TestATaskIsReleasedToAQueueOfAnotherType(t *testing.T) {
	grouped := task(2)
	grouped.Group, grouped.Key = "group", "key"
	for typ, want := range map[queue.Type]string{
		queue.Standard: "[{1 0s   map[]} {2 0s   map[]}]",
		queue.FIFO:     "[{1 0s task-001 later/task-001 map[]} {2 0s group key map[]}]",
	} {
		b, o := newBook(task(1), grouped), &outbox{typ: typ}
		n, err := releaser(b, map[queue.Name]queue.Sender{queue.Normal: o}).Release(t.Context(), noon)
		slices.SortFunc(o.sent, func(x, y queue.Message) int { return strings.Compare(x.Body, y.Body) })
		if got := fmt.Sprint(o.sent); n != 2 || err != nil || got != want {
			t.Errorf("%s: released %d, %v: %s, want %s", typ, n, err, got, want)
		}
		for _, m := range o.sent {
			if err := m.Check(typ.FIFO(queue.Normal)); err != nil {
				t.Errorf("%s: %v", typ, err)
			}
		}
	}
}

func TestAGroupLiesInOneShardAndOthersSpread(t *testing.T) {
	shards, grouped := map[int]int{}, map[int]int{}
	for i := range 200 {
		one := task(i)
		shards[one.Shard()]++
		one.Group = "group"
		grouped[one.Shard()]++
	}
	if len(shards) != agenda.Shards || len(grouped) != 1 {
		t.Errorf("tasks lie in shards %v, those of a group in %v", shards, grouped)
	}
}
