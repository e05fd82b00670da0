package postgres_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"fedpost/internal/engine/postgres"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/queue/queuetest"
	"fedpost/internal/engine/table/tabletest"
	"fedpost/internal/testkit/engines/pgtest"
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

func TestQueueContract(t *testing.T) {
	queuetest.Run(t, func(t *testing.T) queuetest.Harness { return harness(t, pgtest.URL(t)) })
}

// harness is what the contract of queues needs of an engine at a URL.
func harness(t *testing.T, url string) queuetest.Harness {
	const visibility, receives = 2 * time.Second, 3
	c := newClock()
	config := queue.Config{Visibility: visibility, MaxReceives: receives}
	e := pgtest.OpenAt(t, url, postgres.Options{Schema: pgtest.Schema(t), Now: c.Now, Queues: map[queue.Name]queue.Config{
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
}

func TestTableContract(t *testing.T) {
	tabletest.Run(t, func(t *testing.T) tabletest.Harness {
		return tabletest.Harness{Table: pgtest.Open(t, postgres.Options{}).Table()}
	})
}
