package sqlite

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/queue/queuetest"
	"fedpost/internal/engine/table/tabletest"
)

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
				return queuetest.Kept(func(now func() time.Time, configs map[queue.Name]queue.Config) queuetest.Keeper {
					return openAt(t, path(t), Options{Now: now, Queues: configs})
				}, false)
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
