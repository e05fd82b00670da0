package postgres_test

import (
	"testing"
	"time"

	"fedpost/internal/engine/postgres"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/queue/queuetest"
	"fedpost/internal/engine/table/tabletest"
	"fedpost/internal/testkit/engines/pgtest"
)

func TestQueueContract(t *testing.T) {
	queuetest.Run(t, func(t *testing.T) queuetest.Harness { return harness(t, pgtest.URL(t)) })
}

// harness is what the contract of queues needs of an engine at a URL.
func harness(t *testing.T, url string) queuetest.Harness {
	schema := pgtest.Schema(t)
	return queuetest.Kept(func(now func() time.Time, configs map[queue.Name]queue.Config) queuetest.Keeper {
		return pgtest.OpenAt(t, url, postgres.Options{Schema: schema, Now: now, Queues: configs})
	}, true)
}

func TestTableContract(t *testing.T) {
	tabletest.Run(t, func(t *testing.T) tabletest.Harness {
		return tabletest.Harness{Table: pgtest.Open(t, postgres.Options{}).Table()}
	})
}
