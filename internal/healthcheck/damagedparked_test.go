package healthcheck_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/table"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
	"fedpost/internal/testkit/world"
)

// damageParked overwrites what is parked of an activity under key.
func damageParked(t *testing.T, w *world.World, key string, id activity.ID) {
	t.Helper()
	damaged := 0
	for shard := range parking.Shards {
		list, _, err := w.Engine.Table().Query(t.Context(), table.Range{PK: fmt.Sprintf("P#%s#%d", key, shard), Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range list {
			if !strings.Contains(it.SK, string(id)+"#") {
				continue
			}
			it.Data = []byte("rubbish")
			if err := w.Engine.Table().PutAll(t.Context(), []table.Item{it}); err != nil {
				t.Fatal(err)
			}
			damaged++
		}
	}
	if damaged != 1 {
		t.Fatalf("%d of %s are parked under %s, want 1", damaged, id, key)
	}
}

// TestAParkedDeliveryThatCannotBeReadHoldsUpNoOther of its lot: each page with it failed to be
// read, so those behind it waited for ever, and its server was never tried again. If the ledger
// knows it, it ends as dead; otherwise it is dropped.
func TestAParkedDeliveryThatCannotBeReadHoldsUpNoOther(t *testing.T) {
	for _, c := range []struct{ ordered, forgotten, blocked, other bool }{
		{},
		{ordered: true},
		{forgotten: true},
		{ordered: true, forgotten: true},
		{blocked: true},
		{ordered: true, blocked: true},
		{blocked: true, forgotten: true},
		{other: true},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			w := world.New(t, world.Options{})
			w.Servers.Script("down.example", world.Down)
			var ids []activity.ID
			for i := range 6 {
				a := w.Activity("Create")
				a.Body = fmt.Sprintf(`{"n":%d}`, i)
				if c.ordered {
					a.OrderingKey = "a key"
				}
				ids = append(ids, w.Send(a, down))
			}
			w.Run(20*minut, time.Second)
			key := circuit.HostKey("down.example")
			if n := w.Parked(key); n != len(ids) {
				t.Fatalf("%d of %d are parked", n, len(ids))
			}
			lost, others := ids[0], ids[1:]
			damageParked(t, w, key, lost)
			if c.other {
				// It is stored under the key of another delivery.
				putAnother(t, w, key, lost, ids[1])
			}
			if n := w.Parked(key); n != len(ids) {
				t.Errorf("%d of %d are listed", n, len(ids))
			}
			if c.forgotten {
				if err := w.Raw().ForgetActivity(t.Context(), lost); err != nil {
					t.Fatal(err)
				}
			}
			w.Servers.Script("down.example", nil)
			end := activity.Delivered
			if c.blocked {
				end = activity.Failed
				if _, _, err := circuit.Change(t.Context(), w.Raw(), key, func(s circuit.State) circuit.State {
					return s.Block(circuit.Default(), "spam", w.Now())
				}); err != nil {
					t.Fatal(err)
				}
			}
			w.Log.Reset()
			w.Run(26*time.Hour, time.Minute)
			for _, id := range others {
				w.Expect(id, map[string]activity.State{down: end})
			}
			if n := w.Parked(key); n != 0 {
				t.Errorf("%d are still parked", n)
			}
			if s := state(t, w, key); s.Parked {
				t.Errorf("the server still waits: %s", world.Brief(s))
			}
			for _, r := range w.Servers.Got() {
				if r.Activity.Body == "" && !strings.HasPrefix(r.Inbox, "probe:") {
					t.Errorf("an activity without a body was sent: %+v", r)
				}
			}
			deaths, dropped := w.DeadLetters.Deaths, strings.Count(w.Log.String(), "a parked delivery cannot be read, and was dropped")
			if c.forgotten {
				if len(deaths) != 0 || dropped != 1 {
					t.Errorf("dropped %d times, dead letters: %+v", dropped, deaths)
				}
				return
			}
			w.Expect(lost, map[string]activity.State{down: activity.Dead})
			if len(deaths) != 1 || deaths[0].Activity.ID != lost || deaths[0].Reason != "damaged" || dropped != 0 {
				t.Errorf("dropped %d times, dead letters: %+v", dropped, deaths)
			}
		})
	}
}

// putAnother writes what is parked of another activity over what is parked of id.
func putAnother(t *testing.T, w *world.World, key string, id, another activity.ID) {
	t.Helper()
	var data []byte
	var item table.Item
	for shard := range parking.Shards {
		list, _, err := w.Engine.Table().Query(t.Context(), table.Range{PK: fmt.Sprintf("P#%s#%d", key, shard), Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range list {
			switch {
			case strings.Contains(it.SK, string(id)+"#"):
				item = it
			case strings.Contains(it.SK, string(another)+"#"):
				data = it.Data
			}
		}
	}
	if data == nil || item.SK == "" {
		t.Fatal("they are not parked")
	}
	item.Data = data
	if err := w.Engine.Table().PutAll(t.Context(), []table.Item{item}); err != nil {
		t.Fatal(err)
	}
}
