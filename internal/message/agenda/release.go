package agenda

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"fedpost/internal/engine/queue"
)

// page is how many tasks are read at a time: several sends, one query.
const page = 50

// Releaser sends what is due.
type Releaser struct {
	Store  Store
	Queues map[queue.Name]queue.Sender
	// Released, if set, is told of every message that was sent.
	Released func(ctx context.Context, t Task)
	Log      *slog.Logger
}

// Release sends every task that is due at now and returns how many it sent. It
// stops when ctx ends, and goes on where it stopped when it is called again. A
// shard whose sending fails is left for the next run; the others go on.
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
		n, err := r.send(ctx, due)
		released += n
		// A task that could not be sent would be read again for ever.
		if err != nil {
			return released, err
		}
	}
}

// send sends ts and forgets those that were sent.
func (r *Releaser) send(ctx context.Context, ts []Task) (int, error) {
	byQueue := map[queue.Name][]Task{}
	var names []queue.Name
	for _, t := range ts {
		if byQueue[t.Queue] == nil {
			names = append(names, t.Queue)
		}
		byQueue[t.Queue] = append(byQueue[t.Queue], t)
	}
	var sent []Task
	var errs []error
	for _, name := range names {
		q, ok := r.Queues[name]
		if !ok {
			errs = append(errs, fmt.Errorf("no queue %q", name))
			continue
		}
		tasks := byQueue[name]
		ms := make([]queue.Message, len(tasks))
		for i, t := range tasks {
			ms[i] = queue.Message{Body: t.Body, OrderingKey: t.Group, DeduplicationKey: t.Key}
		}
		for i, err := range q.SendBatch(ctx, ms) {
			if err != nil {
				r.Log.ErrorContext(ctx, "delayed work was not released, it will be tried again",
					"activity", tasks[i].ID, "queue", name, "due", tasks[i].DueAt, "error", err)
				errs = append(errs, fmt.Errorf("activity %s: %w", tasks[i].ID, err))
				continue
			}
			sent = append(sent, tasks[i])
		}
	}
	for _, t := range sent {
		if r.Released != nil {
			r.Released(ctx, t)
		}
	}
	if err := r.Store.DropTasks(ctx, sent); err != nil {
		errs = append(errs, fmt.Errorf("forget released tasks: %w", err))
	}
	return len(sent), errors.Join(errs...)
}
