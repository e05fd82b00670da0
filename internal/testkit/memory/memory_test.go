package memory_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/queue/queuetest"
	"fedpost/internal/engine/table/tabletest"
	"fedpost/internal/testkit/memory"
)

func TestMemoryIsAQueue(t *testing.T) {
	queuetest.Run(t, func(*testing.T) queuetest.Harness {
		const visibility, receives = 30 * time.Second, 3
		var mu sync.Mutex
		at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		now := func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return at
		}
		config := queue.Config{Visibility: visibility, MaxReceives: receives}
		e := memory.New(now, map[queue.Name]queue.Config{queue.Normal: config, queue.Ordered: config})
		return queuetest.Harness{
			Standard: e.Queue(queue.Normal), FIFO: e.Queue(queue.Ordered), Dead: e.Queue(queue.Dead), DeadOrdered: e.Queue(queue.DeadOrdered),
			Visibility: visibility, MaxReceives: receives, Now: now,
			Advance: func(d time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				at = at.Add(d)
			},
			Redrive: func(_ context.Context, dead queue.Name) error {
				e.Redrive(dead)
				return nil
			},
		}
	})
}

func TestMemoryIsATable(t *testing.T) {
	tabletest.Run(t, func(*testing.T) tabletest.Harness {
		return tabletest.Harness{Table: memory.New(time.Now, nil).Table()}
	})
}
