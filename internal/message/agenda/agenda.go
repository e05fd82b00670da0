// Package agenda keeps queue messages until they are due, if the queue itself cannot: for longer than a
// standard queue's longest delay, and for any delay on a FIFO queue, as SQS cannot delay its messages.
//
// A task is one queue message with a date. The scheduled function sends each due task and then drops it. If
// it dies in between, or two runs overlap, the message is sent twice; both copies have the same activity
// id, by which all work behind the queue is idempotent, so the agenda needs no lock.
package agenda

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/message"
	"fedpost/internal/message/claimcheck"
)

// Shards is how many parts the agenda is split in, so that no partition of the due index runs hot.
const Shards = 4

// Task is a message to send when it is due.
type Task struct {
	// ID is the activity's, or that of a batch's first. A task that is put twice is one task.
	ID    string     `json:"-"`
	Queue queue.Name `json:"queue"`
	// Body is the encoded message, at most what fits an item when deflated.
	Body string `json:"body"`
	// Group and Key are the message's ordering and deduplication keys on a FIFO queue; if empty, the ID
	// and its ReleaseKey.
	Group string    `json:"group,omitempty"`
	Key   string    `json:"key,omitempty"`
	DueAt time.Time `json:"due"`
	// Forget is when the table may drop it, released or not: at least Slack after it is due.
	Forget time.Time `json:"-"`
	// Damaged is why the stored task cannot be read. Such a task has only ID and Forget besides.
	Damaged error `json:"-"`
}

// ReleaseKey is the deduplication key of the released message. The key of the message that was sent at once
// would not do: a worker may have put that message off, and a FIFO queue drops a second one for five
// minutes.
func ReleaseKey(id string) string { return "later/" + id }

// Shard is the same for all tasks of an ordering group, which are released in order.
func (t Task) Shard() int {
	h := fnv.New32a()
	h.Write([]byte(cmp.Or(t.Group, t.ID)))
	return int(h.Sum32() % Shards)
}

// Slack is how long a task and its payload are kept after the due time. If the schedule stops for less than
// Slack, nothing is lost.
const Slack = 30 * 24 * time.Hour

// Fit returns the encoded message body as a task can hold it: body, or a claim check for it, stored under
// id until forget.
func Fit(ctx context.Context, s claimcheck.Store, id, body string, forget time.Time) (string, error) {
	if len(claimcheck.Deflate(body)) <= claimcheck.PartSize {
		return body, nil
	}
	parts, err := claimcheck.Put(ctx, s, id, body, forget)
	if err != nil {
		return "", err
	}
	return message.Encode(message.Message{Ref: &message.Ref{ID: id, Parts: parts}})
}

// Store is what the agenda needs of its storage.
type Store interface {
	// PutTask stores t and replaces one of the same id.
	PutTask(ctx context.Context, t Task) error
	// DueTasks returns up to limit tasks of a shard that are due at now, the earliest first, without
	// those that were dropped before the call. A task that cannot be read has Damaged set.
	DueTasks(ctx context.Context, shard int, now time.Time, limit int) ([]Task, error)
	DropTasks(ctx context.Context, ts []Task) error
}

// page is how many tasks are read at a time.
const page = 50

// Releaser sends tasks that are due.
type Releaser struct {
	Store  Store
	Queues map[queue.Name]queue.Sender
	// Released, if set, is called for every message that was sent.
	Released func(ctx context.Context, t Task)
	// SetAside gives up a task that a queue refuses for good, and records the end of its recipients; then
	// the task is dropped. nil: such a task stays and holds up others.
	SetAside func(ctx context.Context, t Task, why error) error
	Log      *slog.Logger
}

// Release sends every task that is due at now and returns how many it sent. It stops when ctx ends; the
// next call goes on there. A shard whose sending fails is left for the next run. A task that a queue
// refuses for good is set aside and holds up no other.
func (r *Releaser) Release(ctx context.Context, now time.Time) (int, error) {
	released := 0
	var errs []error
	for shard := range Shards {
		n, err := r.shard(ctx, shard, now)
		released += n
		if err != nil {
			errs = append(errs, fmt.Errorf("release agenda shard %d: %w", shard, err))
		}
	}
	return released, errors.Join(errs...)
}

func (r *Releaser) shard(ctx context.Context, shard int, now time.Time) (int, error) {
	released := 0
	for {
		if err := ctx.Err(); err != nil {
			return released, err
		}
		due, err := r.Store.DueTasks(ctx, shard, now, page)
		if err != nil || len(due) == 0 {
			return released, err
		}
		p := &pass{Releaser: r}
		p.send(ctx, due)
		p.forget(ctx)
		released += len(p.sent)
		// A task that could not be sent would be read again for ever; but those that only failed together
		// with a refused one deserve another try.
		if p.errs != nil && (p.refused == 0 || p.stuck) {
			return released, errors.Join(p.errs...)
		}
	}
}

// pass is the work on one page of tasks.
type pass struct {
	*Releaser
	sent, aside []Task
	refused     int // tasks that were sent repaired or set aside
	stuck       bool
	errs        []error
}

func (p *pass) send(ctx context.Context, ts []Task) {
	var tasks []Task
	var ms []message.Addressed
	for _, t := range ts {
		switch {
		case t.Damaged != nil:
			p.setAside(ctx, t, t.Damaged)
		case p.Queues[t.Queue] == nil:
			p.stuck, p.errs = true, append(p.errs, fmt.Errorf("no queue %q", t.Queue))
		default:
			tasks, ms = append(tasks, t), append(ms, message.Addressed{Queue: t.Queue, Message: messageOf(t, p.Queues[t.Queue])})
		}
	}
	queues := func(n queue.Name) queue.Sender { return p.Queues[n] }
	for i, err := range message.Send(ctx, queues, ms) {
		switch {
		case err == nil:
			p.sent = append(p.sent, tasks[i])
		case queue.Refused(err):
			p.repair(ctx, queues(tasks[i].Queue), tasks[i], err)
		default:
			p.failed(ctx, tasks[i], err)
		}
	}
}

// messageOf returns t's message for q, whose type may have changed since t was put.
func messageOf(t Task, q queue.Sender) queue.Message {
	m := queue.Message{Body: t.Body}
	if q.Capabilities().NativeDeduplication {
		m.OrderingKey, m.DeduplicationKey = cmp.Or(t.Group, t.ID), cmp.Or(t.Key, ReleaseKey(t.ID))
	}
	if msg, err := message.Decode(t.Body); err == nil && q.Capabilities().Fair {
		m.OrderingKey = msg.Sender()
	}
	return m
}

// repair encodes a refused message anew, because an earlier Encode let characters pass that queues refuse,
// and sends it, or sets the task aside.
func (p *pass) repair(ctx context.Context, q queue.Sender, t Task, why error) {
	m, err := message.Decode(t.Body)
	if err != nil {
		p.setAside(ctx, t, errors.Join(why, err))
		return
	}
	again := t
	if again.Body, err = message.Encode(m); err != nil || again.Body == t.Body {
		p.setAside(ctx, t, errors.Join(why, err))
		return
	}
	switch err := q.Send(ctx, messageOf(again, q)); {
	case err == nil:
		p.refused++
		p.sent = append(p.sent, again)
	case queue.Refused(err):
		p.setAside(ctx, t, err)
	default:
		p.failed(ctx, t, err)
	}
}

func (p *pass) setAside(ctx context.Context, t Task, why error) {
	if p.SetAside == nil {
		p.failed(ctx, t, why)
		return
	}
	if err := p.SetAside(ctx, t, why); err != nil {
		p.failed(ctx, t, fmt.Errorf("set aside: %w", errors.Join(err, why)))
		return
	}
	p.Log.ErrorContext(ctx, "delayed work can never be sent and was set aside", "activity", t.ID, "queue", t.Queue, "error", why)
	p.refused++
	p.aside = append(p.aside, t)
}

func (p *pass) failed(ctx context.Context, t Task, err error) {
	p.Log.ErrorContext(ctx, "delayed work was not released, it will be tried again",
		"activity", t.ID, "queue", t.Queue, "due", t.DueAt, "error", err)
	p.errs = append(p.errs, fmt.Errorf("activity %s: %w", t.ID, err))
}

// forget drops what was sent or set aside.
func (p *pass) forget(ctx context.Context) {
	if p.Releaser.Released != nil {
		for _, t := range p.sent {
			p.Releaser.Released(ctx, t)
		}
	}
	if err := p.Store.DropTasks(ctx, append(p.aside, p.sent...)); err != nil {
		p.stuck, p.errs = true, append(p.errs, fmt.Errorf("forget released tasks: %w", err))
	}
}
