package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/engine/sqlite"
	"fedpost/internal/engine/table"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/store"
)

// TestAStateThatCannotBeReadHidesNoOther: one damaged record would end the checks of all servers
// of its shard.
func TestAStateThatCannotBeReadHidesNoOther(t *testing.T) {
	e := embedded(t, sqlite.Options{})
	now := time.Now().UTC().Truncate(time.Millisecond)
	s := store.New(e.Table(), func() time.Time { return now })
	const hosts = 20
	for i := range hosts {
		st := circuit.State{Key: circuit.HostKey(fmt.Sprintf("h%d.example", i))}.
			Fault(circuit.Default(), outcome.Timeout, "no answer", now).Park(circuit.Default(), now)
		if _, err := s.SaveServer(t.Context(), st); err != nil {
			t.Fatal(err)
		}
	}
	var damaged table.Item
	for shard := range circuit.Shards {
		list, err := e.Table().Due(t.Context(), fmt.Sprintf("server#%d", shard), now.Add(time.Hour), 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) > 1 {
			damaged = list[0]
		}
	}
	if damaged.SK == "" {
		t.Fatal("no shard has two states that are due")
	}
	damaged.Data = []byte("{")
	if err := e.Table().PutAll(t.Context(), []table.Item{damaged}); err != nil {
		t.Fatal(err)
	}
	found, named := 0, false
	for shard := range circuit.Shards {
		due, err := s.DueServers(t.Context(), shard, now.Add(time.Hour), 0)
		found += len(due)
		named = named || err != nil && strings.Contains(err.Error(), damaged.SK)
	}
	if found != hosts-1 || !named {
		t.Errorf("%d of %d other servers are found; the damaged one is named: %t", found, hosts-1, named)
	}
}
