package enqueue_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"fedpost/internal/enqueue"
	"fedpost/internal/testkit/faults"
)

// counted is a meter that adds up.
type counted struct {
	recipients int

	mu     sync.Mutex
	others map[string]int
}

func (c *counted) count(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.others[name]
}

func (c *counted) Counted(name string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.others == nil {
		c.others = map[string]int{}
	}
	c.others[name] += n
}

func (c *counted) Flush(context.Context) {}

func (c *counted) Accepted(_ context.Context, n int) { c.recipients += n }

func TestOnlyWhatIsQueuedNowIsAccepted(t *testing.T) {
	m := &counted{}
	w := newWorld(t, faults.NewPlan(), func(s *settings) { s.enqueue.Meter = m })
	for range 2 { // the second is a duplicate
		if _, err := w.service.Enqueue(t.Context(), request(key("one"))); err != nil {
			t.Fatal(err)
		}
		if m.recipients != 2 {
			t.Errorf("counted %d, want the 2 of one request", m.recipients)
		}
	}
	batch := enqueue.BatchRequest{Requests: []enqueue.Request{request(), request()}}
	if _, err := w.service.EnqueueBatch(t.Context(), batch); err != nil || m.recipients != 6 {
		t.Errorf("counted %d, want 6; %v", m.recipients, err)
	}
	var invalid *enqueue.InvalidError
	if _, err := w.service.Enqueue(t.Context(), enqueue.Request{}); !errors.As(err, &invalid) || m.recipients != 6 {
		t.Errorf("counted %d, want 6; %v", m.recipients, err)
	}
}
