package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"fedpost/internal/engine/table"
	"fedpost/internal/message/agenda"
	"fedpost/internal/message/claimcheck"
)

var _ agenda.Store = (*Store)(nil)

const taskPrefix = "T#"

func taskKey(id string) table.Key { return table.Key{PK: taskPrefix + id, SK: "TASK"} }

func (s *Store) PutTask(ctx context.Context, t agenda.Task) error {
	data, err := encode(t)
	if err != nil {
		return err
	}
	return s.t.Put(ctx, table.Item{
		Key:     taskKey(t.ID),
		Data:    claimcheck.Deflate(string(data)),
		Expires: t.Forget,
		Due:     table.Due{Shard: fmt.Sprintf("agenda#%d", t.Shard()), At: t.DueAt},
	}, table.Cond{})
}

// DueTasks implements agenda.Store. The index only names tasks, and may lag behind
// the table. A task that the index still shows and the table no longer has was
// released by another run: DueTasks leaves it out.
func (s *Store) DueTasks(ctx context.Context, shard int, now time.Time, limit int) ([]agenda.Task, error) {
	due, err := s.t.Due(ctx, fmt.Sprintf("agenda#%d", shard), now, limit)
	if err != nil || len(due) == 0 {
		return nil, err
	}
	items, err := s.t.Get(ctx, keysOf(due, func(it table.Item) table.Key { return it.Key })...)
	if err != nil {
		return nil, err
	}
	var tasks []agenda.Task
	for _, it := range items {
		if t := readTask(it); !t.DueAt.After(now) {
			tasks = append(tasks, t)
		}
	}
	slices.SortFunc(tasks, func(a, b agenda.Task) int {
		return cmp.Or(a.DueAt.Compare(b.DueAt), strings.Compare(a.ID, b.ID))
	})
	return tasks, nil
}

func readTask(it table.Item) agenda.Task {
	t := agenda.Task{ID: strings.TrimPrefix(it.Key.PK, taskPrefix), Forget: it.Expires}
	damaged := t
	data, err := claimcheck.Inflate(it.Data)
	if err == nil {
		it.Data = []byte(data)
		err = decode(it, &t)
	}
	if err != nil {
		damaged.Damaged = fmt.Errorf("task %s: %w", t.ID, err)
		return damaged
	}
	return t
}

func (s *Store) DropTasks(ctx context.Context, ts []agenda.Task) error {
	if len(ts) == 0 {
		return nil
	}
	return s.t.DeleteAll(ctx, keysOf(ts, func(t agenda.Task) table.Key { return taskKey(t.ID) }))
}
