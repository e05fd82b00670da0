package sqlite

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
)

// TestWhatNeedsNoDiskIsAnsweredBeforeTheSync: a read and a deletion of a message share a group with a write
// whose commit takes long.
func TestWhatNeedsNoDiskIsAnsweredBeforeTheSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openAt(t, file(t), Options{})
		q := e.Queue(queue.Normal)
		mustSend(t, q, message(queue.Normal, 0))
		handle := receive(t, q, queue.ReceiveOptions{Max: 1})[0].Handle
		keys := fill(t, e, 1)
		var calls sync.WaitGroup
		release := blocked(t, e, &calls)
		commit := make(chan struct{})
		calls.Go(func() {
			if err := e.write(t.Context(), func(*session) error { <-commit; return nil }); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		read, deleted := 0, false
		calls.Go(func() {
			if err := q.Delete(t.Context(), handle); err != nil {
				t.Error(err)
			}
			deleted = true
		})
		calls.Go(func() {
			got, err := e.Table().Get(t.Context(), keys...)
			if err != nil {
				t.Error(err)
			}
			read = len(got)
		})
		synctest.Wait()
		release()
		synctest.Wait()
		if read != 1 || !deleted {
			t.Errorf("before the sync, %d items were read, want 1; a message was deleted: %t", read, deleted)
		}
		close(commit)
		calls.Wait()
	})
}

// TestOnlyWhatAPowerCutMustNotUndoIsSynced looks at how each call was committed.
func TestOnlyWhatAPowerCutMustNotUndoIsSynced(t *testing.T) {
	e := openAt(t, file(t), Options{})
	q := e.Queue(queue.Normal)
	mustSend(t, q, message(queue.Normal, 0))
	var handle string
	receiveOne := func() error {
		got, err := q.Receive(t.Context(), queue.ReceiveOptions{Max: 1})
		if len(got) == 1 {
			handle = got[0].Handle
		}
		return err
	}
	put := func(unsynced bool) func() error {
		return func() error {
			return e.Table().Put(t.Context(), table.Item{Key: table.Key{PK: "p", SK: "s"}, Unsynced: unsynced}, table.Cond{})
		}
	}
	for _, c := range []struct {
		name   string
		call   func() error
		synced int // PRAGMA synchronous
	}{
		{"receive", receiveOne, 2},
		{"send", func() error { return q.Send(t.Context(), message(queue.Normal, 1)) }, 2},
		{"change the visibility", func() error { return q.ChangeVisibility(t.Context(), handle, time.Minute) }, 1},
		{"put", put(false), 2},
		{"put unsynced", put(true), 1},
		{"delete an item", func() error { return e.Table().Delete(t.Context(), table.Key{PK: "p", SK: "s"}, table.Cond{}) }, 2},
		{"delete a message", func() error { return q.Delete(t.Context(), handle) }, 1},
	} {
		if err := c.call(); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		synced := 0
		err := e.readSoon(t.Context(), func(s *session) error {
			_, err := s.one(`PRAGMA synchronous`, nil, &synced)
			return err
		})
		if err != nil || synced != c.synced {
			t.Errorf("%s: synchronous is %d, want %d, %v", c.name, synced, c.synced, err)
		}
	}
}
