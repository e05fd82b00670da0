package deliver_test

import (
	"io"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/message"
	"fedpost/internal/message/agenda"
	"fedpost/internal/testkit/engines"
	"fedpost/internal/testkit/world"
)

// releaseAgenda sends what is due on the agenda.
func releaseAgenda(t *testing.T, w *world.World) {
	t.Helper()
	r := agenda.Releaser{Store: w.Store, Queues: map[queue.Name]queue.Sender{}, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	for _, n := range queue.Names {
		r.Queues[n] = w.Engine.Queue(n)
	}
	if _, err := r.Release(t.Context(), w.Now()); err != nil {
		t.Fatal(err)
	}
}

// TestRetriesThatWaitSurviveAChangeOfTheQueuesType: two recipients of an activity wait on FIFO
// queues for their next attempts, when the installation starts anew with standard queues.
func TestRetriesThatWaitSurviveAChangeOfTheQueuesType(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fedpost.db")
	var id activity.ID
	t.Run("fifo", func(t *testing.T) {
		w := world.New(t, world.Options{QueueType: queue.FIFO, Path: path})
		w.Servers.Script("one.example", world.Answers(500))
		w.Servers.Script("two.example", world.Answers(500))
		id = w.Send(w.Activity("Create"), "https://one.example/1", "https://two.example/1")
		w.Work()
	})
	w := world.New(t, world.Options{Path: path})
	if err := w.Engine.(engines.File).Recall(t.Context()); err != nil { // as a program does that starts
		t.Fatal(err)
	}
	for range 12 {
		releaseAgenda(t, w)
		w.Run(10*time.Second, time.Second)
	}
	w.Expect(id, map[string]activity.State{"https://one.example/1": activity.Delivered, "https://two.example/1": activity.Delivered})
	w.Quiet()
}

// TestDeliveriesThatWaitSurviveAClockThatIsBehind: what may begin in a quarter of an hour by the
// clock of whoever sent it begins later than that by the clock of its worker.
func TestDeliveriesThatWaitSurviveAClockThatIsBehind(t *testing.T) {
	for _, behind := range []time.Duration{time.Second, 10 * time.Minute} {
		t.Run(behind.String(), func(t *testing.T) {
			w := world.New(t, world.Options{QueueType: queue.FIFO})
			q, a := w.Engine.Queue(queue.Normal), w.Activity("Create")
			inboxes := []string{"https://one.example/1", "https://two.example/1"}
			id := w.Send(a, inboxes...)
			// The chunk is gone: both of its targets have messages of their own.
			if err := q.Delete(t.Context(), receive(t, w, queue.Normal)[0].Handle); err != nil {
				t.Fatal(err)
			}
			for i, inbox := range inboxes {
				d := message.Delivery{Position: i, Targets: []activity.Target{{Inbox: inbox, Stands: 1}}, Generation: 1}
				m, err := d.Queued(a, message.Sending{
					Queue: queue.Normal, Can: q.Capabilities(), Wait: queue.MaxDelay, Now: w.Now().Add(behind), Copy: "released",
				})
				if err != nil {
					t.Fatal(err)
				}
				if err := q.Send(t.Context(), m.Message); err != nil {
					t.Fatal(err)
				}
			}
			for range 180 {
				releaseAgenda(t, w)
				w.Run(10*time.Second, time.Second)
			}
			w.Expect(id, map[string]activity.State{inboxes[0]: activity.Delivered, inboxes[1]: activity.Delivered})
			w.Quiet()
		})
	}
}
