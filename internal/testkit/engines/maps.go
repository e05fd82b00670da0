package engines

import (
	"testing"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/testkit/faults"
	"fedpost/internal/testkit/memory"
)

// Maps is the simulation's engine, of maps and slices. It keeps the contracts that the
// embedded engine keeps, and takes a quarter of its processor time.
func Maps() Engine { return Engine{Name: "maps", open: openMaps} }

// MapsFIFO is the engine of maps with FIFO queues only.
func MapsFIFO() Engine {
	return Engine{Name: "maps-fifo", Type: queue.FIFO, thin: 2, few: 8, open: openMaps}
}

func openMaps(_ testing.TB, o Options) Instance {
	return inMemory{memory.NewOf(o.Type, o.Now, o.Queues)}
}

// inMemory is an instance of the engine of maps.
type inMemory struct{ *memory.Engine }

// Under implements Instance.
func (m inMemory) Under(p *faults.Plan) (func(queue.Name) queue.Queue, table.Table) {
	return underPorts(m, p)
}

// underPorts returns an instance's queues and table under a plan that breaks calls at the
// ports.
func underPorts(i Instance, p *faults.Plan) (func(queue.Name) queue.Queue, table.Table) {
	queues := make(map[queue.Name]queue.Queue, len(queue.Names))
	for _, n := range queue.Names {
		queues[n] = faults.Queue(p, string(n), i.Queue(n))
	}
	return func(n queue.Name) queue.Queue { return queues[n] }, faults.Table(p, "table", i.Table())
}
