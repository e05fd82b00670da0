package simulation

import (
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
)

// Upgrading returns the scenario in which each process is of the previous build until it dies, and
// of this one after its first restart. Like the type of On, this is not drawn, so that a seed stays
// the same story.
func (sc Scenario) Upgrading() Scenario {
	sc.Processes = slices.Clone(sc.Processes)
	for i := range sc.Processes {
		sc.Processes[i].Older = i > 0 || len(sc.Processes) == 1
	}
	return sc
}

// What the previous build does not know: fields of servers' states, and of deliveries on queues.
// Whoever adds a field to what is stored or sent adds it here.
var (
	newerFields   = []string{"keyId", "slow", "slowAt", "tookAt", "vain", "vainSince"}
	newerMessages = regexp.MustCompile(`,"(alone|metadata)":(true|"[^"\\]*")`)
)

const statesPK = "S#" // partitions of servers' states begin with it

// older is the table as the previous build reads and writes it.
type older struct{ table.Table }

// without returns an item without what the previous build does not know.
func without(it table.Item) table.Item {
	var fields map[string]json.RawMessage
	if !strings.HasPrefix(it.PK, statesPK) || json.Unmarshal(it.Data, &fields) != nil {
		return it
	}
	maps.DeleteFunc(fields, func(name string, _ json.RawMessage) bool { return slices.Contains(newerFields, name) })
	it.Data, _ = json.Marshal(fields) // it was JSON
	return it
}

func allWithout(items []table.Item) []table.Item {
	items = slices.Clone(items)
	for i := range items {
		items[i] = without(items[i])
	}
	return items
}

// Get implements table.Table.
func (t older) Get(ctx context.Context, keys ...table.Key) (map[table.Key]table.Item, error) {
	found, err := t.Table.Get(ctx, keys...)
	for k, it := range found {
		found[k] = without(it)
	}
	return found, err
}

// Query implements table.Table.
func (t older) Query(ctx context.Context, r table.Range) ([]table.Item, bool, error) {
	items, more, err := t.Table.Query(ctx, r)
	return allWithout(items), more, err
}

// Put implements table.Table.
func (t older) Put(ctx context.Context, it table.Item, cond table.Cond) error {
	return t.Table.Put(ctx, without(it), cond)
}

// PutAll implements table.Table.
func (t older) PutAll(ctx context.Context, items []table.Item) error {
	return t.Table.PutAll(ctx, allWithout(items))
}

// Transact implements table.Table.
func (t older) Transact(ctx context.Context, ops []table.Op) error {
	ops = slices.Clone(ops)
	for i, op := range ops {
		if op.Put != nil {
			it := without(*op.Put)
			ops[i].Put = &it
		}
	}
	return t.Table.Transact(ctx, ops)
}

// Due implements table.Table.
func (t older) Due(ctx context.Context, shard string, by time.Time, limit int) ([]table.Item, error) {
	items, err := t.Table.Due(ctx, shard, by, limit)
	return allWithout(items), err
}

// olderQueue is a queue as the previous build reads it. Sends stay as they are.
type olderQueue struct{ queue.Queue }

// Receive implements queue.Queue.
func (q olderQueue) Receive(ctx context.Context, o queue.ReceiveOptions) ([]queue.Received, error) {
	got, err := q.Queue.Receive(ctx, o)
	for i := range got {
		got[i].Body = newerMessages.ReplaceAllString(got[i].Body, "")
	}
	return got, err
}
