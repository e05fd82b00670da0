package engines

import (
	"testing"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/sqlite"
	"fedpost/internal/engine/table"
	"fedpost/internal/testkit/faults"
)

// File is an instance of the embedded engine.
type File struct{ *sqlite.Engine }

// Embedded is the engine on a file, or in memory.
func Embedded() Engine { return Engine{Name: "embedded", thin: 3, few: 6} }

// EmbeddedFIFO is the embedded engine with FIFO queues only.
func EmbeddedFIFO() Engine { return Engine{Name: "embedded-fifo", Type: queue.FIFO} }

// OpenEmbedded opens the embedded engine, for tests of what only it has.
func OpenEmbedded(t testing.TB, o Options) File {
	t.Helper()
	if o.Path == "" {
		o.Path = sqlite.Memory
	}
	e, err := sqlite.Open(t.Context(), o.Path, sqlite.Options{Now: o.Now, Queues: o.Queues, Type: o.Type})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return File{e}
}

// Under implements Instance.
func (f File) Under(p *faults.Plan) (func(queue.Name) queue.Queue, table.Table) {
	return underPorts(f, p)
}
