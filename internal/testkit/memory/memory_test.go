package memory_test

import (
	"testing"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/queue/queuetest"
	"fedpost/internal/engine/table/tabletest"
	"fedpost/internal/testkit/memory"
)

func TestMemoryIsAQueue(t *testing.T) {
	queuetest.Run(t, func(*testing.T) queuetest.Harness {
		return queuetest.Kept(func(now func() time.Time, configs map[queue.Name]queue.Config) queuetest.Keeper {
			return memory.New(now, configs)
		}, false)
	})
}

func TestMemoryIsATable(t *testing.T) {
	tabletest.Run(t, func(*testing.T) tabletest.Harness {
		return tabletest.Harness{Table: memory.New(time.Now, nil).Table()}
	})
}
