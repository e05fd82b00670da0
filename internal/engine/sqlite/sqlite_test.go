package sqlite

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/queue/queuetest"
	"fedpost/internal/engine/table/tabletest"
)

// clock is a manual clock.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Now().Truncate(time.Millisecond)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func openAt(t testing.TB, path string, o Options) *Engine {
	t.Helper()
	e, err := Open(context.Background(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return e
}

func file(t testing.TB) string { return filepath.Join(t.TempDir(), "fedpost.db") }

// engines are the two ways to open an engine.
var engines = map[string]func(testing.TB) string{
	"file":   file,
	"memory": func(testing.TB) string { return Memory },
}

func TestQueueContract(t *testing.T) {
	for name, path := range engines {
		t.Run(name, func(t *testing.T) {
			queuetest.Run(t, func(t *testing.T) queuetest.Harness {
				const visibility, receives = 2 * time.Second, 3
				c := newClock()
				config := queue.Config{Visibility: visibility, MaxReceives: receives}
				e := openAt(t, path(t), Options{Now: c.Now, Queues: map[queue.Name]queue.Config{
					queue.Normal: config, queue.Ordered: config,
				}})
				return queuetest.Harness{
					Standard: e.Queue(queue.Normal), FIFO: e.Queue(queue.Ordered),
					Dead: e.Queue(queue.Dead), DeadOrdered: e.Queue(queue.DeadOrdered),
					Visibility: visibility, MaxReceives: receives,
					Advance: c.Advance, Now: c.Now,
					Redrive: func(ctx context.Context, dead queue.Name) error {
						_, err := e.Redrive(ctx, dead)
						return err
					},
				}
			})
		})
	}
}

func TestTableContract(t *testing.T) {
	for name, path := range engines {
		t.Run(name, func(t *testing.T) {
			tabletest.Run(t, func(t *testing.T) tabletest.Harness {
				return tabletest.Harness{Table: openAt(t, path(t), Options{}).Table()}
			})
		})
	}
}
