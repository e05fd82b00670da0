package store_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
	"fedpost/internal/ledger/events"
	"fedpost/internal/store"
	"fedpost/internal/testkit/memory"
)

// TestAnActivityThatCannotBeReadHoldsUpTheEndOfNoOther: the run stopped at it, and each later run
// read it first again, so no other activity that was due with it ever got its event.
func TestAnActivityThatCannotBeReadHoldsUpTheEndOfNoOther(t *testing.T) {
	for name, damaged := range map[string]func(activity.ID) table.Key{
		"record": func(id activity.ID) table.Key { return table.Key{PK: "A#" + string(id), SK: "META"} },
		"watch":  func(id activity.ID) table.Key { return table.Key{PK: "Y#" + string(id), SK: "WATCH"} },
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
			e := memory.New(func() time.Time { return now }, nil)
			looks := &looked{Table: e.Table(), at: map[table.Key]int{}}
			s := store.New(looks, func() time.Time { return now })
			watch := func(n int) activity.ID {
				id := activity.DerivedID(now, fmt.Sprint(n))
				r := ledger.Record{ID: id, Type: "Create", CreatedAt: now, Recipients: 1, Targets: 1, Chunk: ledger.ChunkSize, Forget: now.Add(30 * 24 * time.Hour)}
				if err := s.CreateActivity(t.Context(), r); err != nil {
					t.Fatal(err)
				}
				if err := s.Watch(t.Context(), id, events.About{Type: "Create"}, r.Forget); err != nil {
					t.Fatal(err)
				}
				if err := s.CancelActivity(t.Context(), id); err != nil {
					t.Fatal(err)
				}
				return id
			}
			const bad, good = 60, 40
			var keys []table.Key
			for n := range bad {
				id := watch(n)
				k := damaged(id)
				items, err := e.Table().Get(t.Context(), k)
				if err != nil {
					t.Fatal(err)
				}
				it := items[k]
				it.Data = []byte("rubbish")
				if err := e.Table().PutAll(t.Context(), []table.Item{it}); err != nil {
					t.Fatal(err)
				}
				keys = append(keys, table.Key{PK: "Y#" + string(id), SK: "WATCH"})
			}
			now = now.Add(time.Second)
			for n := range good {
				watch(bad + n)
			}
			failed := 0
			for range 24 * 60 {
				now = now.Add(time.Minute)
				if err := s.FinishDue(t.Context(), now); err != nil {
					failed++
				}
			}
			p, err := s.Events(t.Context(), "", 1000)
			if err != nil || len(p.Events) != good {
				t.Errorf("%d of %d are told, %v", len(p.Events), good, err)
			}
			if failed == 0 {
				t.Error("no run says that an activity cannot be read")
			}
			// A run looks at a bounded number, so those that were looked at must not be the first
			// again.
			for _, k := range keys {
				if n := looks.at[k]; n == 0 || n > 60 {
					t.Errorf("%s was looked at %d times in a day", k.PK, n)
				}
			}
		})
	}
}

// looked counts the reads of single items.
type looked struct {
	table.Table
	mu sync.Mutex
	at map[table.Key]int
}

func (l *looked) Get(ctx context.Context, keys ...table.Key) (map[table.Key]table.Item, error) {
	l.mu.Lock()
	for _, k := range keys {
		l.at[k]++
	}
	l.mu.Unlock()
	return l.Table.Get(ctx, keys...)
}
