package deliver_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/deliver"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger/events"
	"fedpost/internal/store"
	"fedpost/internal/testkit/engines"
	"fedpost/internal/testkit/faults"
	"fedpost/internal/testkit/world"
)

// severed cuts a process off from table and queues with the answer to its record.
type severed struct {
	mu       sync.Mutex
	claimed  string // the item of the claim, which becomes the record
	answered bool
	until    time.Time
}

var errSevered = errors.New("the process is cut off")

func (s *severed) Intercept(_ context.Context, c faults.Call, act func(faults.Fault) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case time.Now().Before(s.until):
		return errSevered
	case c.Target != "table" || c.Op != "Put" || !strings.Contains(c.About, "A#"):
	case !s.answered && s.claimed == "":
		s.claimed = c.About
	case s.answered && s.until.IsZero() && c.About == s.claimed:
		s.until = time.Now().Add(20 * time.Minute)
		return errors.Join(act(faults.Fault{}), errSevered)
	}
	return act(faults.Fault{})
}

// TestAnEndIsOneEventThoughItsProcessWasCutOffFromItsRecord: another process has found the record
// meanwhile, and written its event.
func TestAnEndIsOneEventThoughItsProcessWasCutOffFromItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cut := &severed{}
		w, run := living(t, engines.Maps(), &failing{})
		w.Servers.Script("gone.example", func(world.Request, int) outcome.Outcome {
			cut.mu.Lock()
			defer cut.mu.Unlock()
			cut.answered = true
			return world.Status(410)
		})
		id := w.Send(w.Activity("Create"), "https://gone.example/1")
		c := w.Config()
		st := store.New(faults.Table(cut, "table", w.Engine.Table()), time.Now)
		queues := map[queue.Name]queue.Queue{}
		for _, n := range queue.Names {
			queues[n] = faults.Queue(cut, string(n), w.Engine.Queue(n))
		}
		c.Ledger, c.Events, c.Writable, c.Worker = st, st, st.Writable, "other."
		c.Queues = func(n queue.Name) deliver.Queue { return queues[n] }
		other := deliver.New(c)
		m := w.Mapping(queue.Normal)
		m.Queue, m.Handler = queues[queue.Normal], other.Handle
		var done sync.WaitGroup
		done.Go(func() {
			if _, err := m.PollOnce(t.Context()); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Second) // virtual
		run(func() bool { return len(eventsOf(t, w, id)) > 0 }, time.Hour)
		if early := time.Now().Before(cut.until); !early || len(eventsOf(t, w, id)) != 1 {
			t.Errorf("the other process appended %v, before the first was back: %t", eventsOf(t, w, id), early)
		}
		done.Wait()
		if got := eventsOf(t, w, id)["https://gone.example/1"]; !slices.Equal(got, []events.Kind{events.RecipientGone}) {
			t.Errorf("told %v, want one %s", got, events.RecipientGone)
		}
	})
}
