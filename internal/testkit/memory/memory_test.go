package memory_test

import (
	"errors"
	"testing"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/queue/queuetest"
	"fedpost/internal/engine/table"
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

// TestAPowerCutUndoesBackToTheLastSync: to the last receive, send or item that is not unsynced.
func TestAPowerCutUndoesBackToTheLastSync(t *testing.T) {
	for _, name := range []queue.Name{queue.Normal, queue.Ordered} {
		e := memory.New(time.Now, nil)
		q, items := e.Queue(name), e.Table()
		for _, key := range []string{"1", "2", "3"} {
			m := queue.Message{Body: key}
			if name.Ordered() {
				m.OrderingKey, m.DeduplicationKey = "group", key
			}
			if err := q.Send(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		got, err := q.Receive(t.Context(), queue.ReceiveOptions{Max: 2})
		if err != nil || len(got) != 2 {
			t.Fatalf("received %v, %v", got, err)
		}
		put := func(fence string, unsynced bool) error {
			return items.Put(t.Context(), table.Item{Key: table.Key{PK: "p", SK: "s"}, Fence: fence, Unsynced: unsynced}, table.Cond{})
		}
		err = errors.Join(q.Delete(t.Context(), got[0].Handle), put("kept", false), put("undone", true),
			q.Delete(t.Context(), got[1].Handle), put("undone too", true))
		if err != nil {
			t.Fatal(err)
		}
		e.CutPower()
		e.Recall()
		again, err := q.Receive(t.Context(), queue.ReceiveOptions{Max: 3})
		if err != nil || len(again) != 2 || again[0].Body != "2" && name.Ordered() {
			t.Errorf("%s: after the power cut %v are there, %v; want the second and the third message", name, again, err)
		}
		if all := e.Items("p"); len(all) != 1 || all[0].Fence != "kept" {
			t.Errorf("after the power cut the items are %v", all)
		}
	}
}
