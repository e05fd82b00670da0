package engines

import (
	"testing"

	"fedpost/internal/engine/postgres"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/testkit/engines/pgtest"
	"fedpost/internal/testkit/faults"
)

// Postgres is the engine on the PostgreSQL database that the environment names (see pgtest).
func Postgres() Engine {
	return Engine{
		Name: "postgres", thin: 5, require: func(t testing.TB) { pgtest.URL(t) },
		open: func(t testing.TB, o Options) Instance {
			return database{pgtest.Open(t, postgres.Options{Now: o.Now, Queues: o.Queues, Type: o.Type})}
		},
	}
}

// PostgresFIFO is Postgres with FIFO queues only.
func PostgresFIFO() Engine {
	e := Postgres()
	e.Name, e.Type = "postgres-fifo", queue.FIFO
	return e
}

// database is an instance of the PostgreSQL engine.
type database struct{ *postgres.Engine }

// Under implements Instance.
func (d database) Under(p *faults.Plan) (func(queue.Name) queue.Queue, table.Table) {
	return underPorts(d, p)
}
