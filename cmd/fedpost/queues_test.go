package main

import (
	"path/filepath"
	"testing"
	"time"

	"fedpost/internal/app/topology"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/queue/queuetest"
	"fedpost/internal/engine/sqlite"
)

// TestAMessageThatIsWaitedForNeverGoesByAge: `up` was off for a month, or its clock was wrong.
func TestAMessageThatIsWaitedForNeverGoesByAge(t *testing.T) {
	c := queuetest.NewClock()
	for kind, settings := range map[string]map[queue.Name]queue.Config{"a file": queues(), "PostgreSQL": sharedQueues()} {
		engine, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "x.db"), sqlite.Options{Now: c.Now, Queues: settings})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range topology.Sources {
			m := queue.Message{Body: "x"}
			if n.Ordered() {
				m.OrderingKey, m.DeduplicationKey = "g", "k"
			}
			if err := engine.Queue(n).Send(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		c.Advance(30 * 24 * time.Hour)
		if err := engine.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, n := range topology.Sources {
			got, err := engine.Queue(n).Receive(t.Context(), queue.ReceiveOptions{Max: 1})
			if err != nil || len(got) != 1 {
				t.Errorf("%s, %s: received %d messages, error %v, want the one that was sent", kind, n, len(got), err)
			}
		}
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	}
}
