package sqlite

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
)

// TestAConditionThatDoesNotHoldCostsTheOthersNothing: callers make conditions fail as they like
// (with a deduplication key that was used, for one), so their group must not run again for it,
// as it does once for a write that has to be undone.
func TestAConditionThatDoesNotHoldCostsTheOthersNothing(t *testing.T) {
	for name, c := range map[string]struct {
		fail func(*session) error
		runs int
	}{
		"a condition": {func(s *session) error {
			return apply(s, table.Op{Put: &table.Item{Key: table.Key{PK: "p", SK: "there"}}, Cond: table.Cond{Absent: true}})
		}, 1},
		"a condition after a write": {func(s *session) error {
			if err := put(s, table.Item{Key: table.Key{PK: "p", SK: "undone"}}); err != nil {
				return err
			}
			return apply(s, table.Op{Check: &table.Key{PK: "p", SK: "there"}, Cond: table.Cond{Absent: true}})
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			e := openAt(t, Memory, Options{})
			if err := e.Table().Put(t.Context(), table.Item{Key: table.Key{PK: "p", SK: "there"}}, table.Cond{}); err != nil {
				t.Fatal(err)
			}
			runs := 0
			group := []*job{
				{do: func(s *session) error {
					runs++
					return put(s, table.Item{Key: table.Key{PK: "p", SK: "first"}})
				}},
				{do: c.fail},
				{do: func(s *session) error { return put(s, table.Item{Key: table.Key{PK: "p", SK: "last"}}) }},
			}
			e.writer.stop()
			err := e.writer.commit(group)
			e.writer = newWriter(e.writer.session, Memory, e.wake)
			if err != nil {
				t.Fatal(err)
			}
			if group[0].err != nil || !errors.Is(group[1].err, table.ErrConflict) || group[2].err != nil || runs != c.runs {
				t.Errorf("ended with %v, %v and %v; the first ran %d times, want %d", group[0].err, group[1].err, group[2].err, runs, c.runs)
			}
			items, _, err := e.Table().Query(t.Context(), table.Range{PK: "p"})
			if err != nil || len(items) != 3 {
				t.Errorf("there are %v, %v; want the first, the last and what was there", items, err)
			}
		})
	}
}

// TestAGroupThatRunsAgainReceivesOnce: the receive of a group runs a second time, because a later
// write of the group has to be undone.
func TestAGroupThatRunsAgainReceivesOnce(t *testing.T) {
	for _, name := range []queue.Name{queue.Normal, queue.Ordered} {
		synctest.Test(t, func(t *testing.T) {
			e := openAt(t, Memory, Options{})
			q := e.Queue(name)
			mustSend(t, q, message(name, 0), message(name, 1), message(name, 2))
			block, runs := make(chan struct{}), 0
			calls := []func(){
				func() {
					if err := e.write(t.Context(), func(*session) error { <-block; return nil }); err != nil {
						t.Error(err)
					}
				},
				func() {
					if err := e.write(t.Context(), func(*session) error { runs++; return nil }); err != nil {
						t.Error(err)
					}
				},
				func() {
					got, err := q.Receive(t.Context(), queue.ReceiveOptions{Max: 10})
					if err != nil || len(got) != 3 {
						t.Errorf("%s: received %d messages, %v", name, len(got), err)
					}
					seen := map[string]bool{}
					for _, m := range got {
						if seen[m.Body] || m.ReceiveCount != 1 {
							t.Errorf("%s: message %q was received %d times, and before: %t", name, m.Body, m.ReceiveCount, seen[m.Body])
						}
						seen[m.Body] = true
						if err := q.Delete(t.Context(), m.Handle); err != nil {
							t.Error(err)
						}
					}
				},
				func() {
					boom := errors.New("boom")
					err := e.write(t.Context(), func(s *session) error {
						return errors.Join(put(s, table.Item{Key: table.Key{PK: "p", SK: "undone"}}), boom)
					})
					if !errors.Is(err, boom) || errors.Is(err, queue.ErrUncertain) {
						t.Errorf("%s: error %v", name, err)
					}
				},
			}
			var wg sync.WaitGroup
			for _, call := range calls {
				wg.Go(call)
				synctest.Wait() // it waits for the writer, behind those before it
			}
			close(block)
			wg.Wait()
			if runs != 2 {
				t.Errorf("%s: the group ran %d times, want 2", name, runs)
			}
			if n := rows(t, e, "item"); n != 0 {
				t.Errorf("%s: %d items of a write that failed", name, n)
			}
			if n := rows(t, e, "message"); n != 0 {
				t.Errorf("%s: %d messages were not deleted", name, n)
			}
		})
	}
}
