package deliver_test

import (
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
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

// TestNothingIsLostWhenTheTypeOfQueuesChangesThereAndBack: work of each kind waits when the
// installation starts with queues of the other type, and again when it goes back.
func TestNothingIsLostWhenTheTypeOfQueuesChangesThereAndBack(t *testing.T) {
	for _, way := range [][]queue.Type{{queue.Standard, queue.FIFO, queue.Standard}, {queue.FIFO, queue.Standard, queue.FIFO}} {
		t.Run(string(way[0])+" first", func(t *testing.T) {
			path, now := filepath.Join(t.TempDir(), "fedpost.db"), world.Start
			sent, accepted := map[activity.ID][]string{}, map[activity.ID]map[string]int{}
			for step, typ := range way {
				last := step == len(way)-1
				t.Run(string(typ), func(t *testing.T) {
					w := world.New(t, world.Options{QueueType: typ, Path: path, Seed: uint64(step + 1)})
					w.Clock.Advance(now.Sub(w.Now()))
					if err := w.Engine.(engines.File).Recall(t.Context()); err != nil {
						t.Fatal(err)
					}
					if !last {
						w.Servers.Script("ill.example", world.Answers(500))
						retried := []string{"https://ill.example/1", "https://ill.example/2", fmt.Sprintf("https://well%d.example/1", step)}
						sent[w.Send(w.Activity("Create"), retried...)] = retried
						w.Work() // two recipients wait for their next attempts
						for _, q := range []queue.Name{queue.High, queue.Low, queue.Ordered} {
							a, to := w.Activity("Create"), inboxes(120)
							if q.Ordered() {
								a.OrderingKey, to = "k", inboxes(5)
							}
							put(t, w, q, message.Message{
								Activity: &a, FanOut: &message.FanOut{Targets: targets(to)},
								Unrecorded: &message.Unrecorded{Forget: w.Now().Add(24 * time.Hour)},
							})
							sent[a.ID] = to
						}
						whole := inboxes(3)
						sent[w.Send(w.Activity("Create"), whole...)] = whole
						if got := receive(t, w, queue.Low); len(got) == 0 { // its process dies
							t.Fatal("nothing is on the queue")
						}
					} else {
						for range 30 {
							releaseAgenda(t, w)
							w.Run(time.Minute, time.Second)
						}
						w.Quiet()
					}
					for id, to := range w.Servers.Accepted() {
						if accepted[id] == nil {
							accepted[id] = map[string]int{}
						}
						for inbox, n := range to {
							accepted[id][inbox] += n
						}
					}
					for id, to := range sent {
						v, err := ledger.ViewOf(t.Context(), w.Store, id, "", 200, w.Now())
						if last && (err != nil || v.Status != ledger.StatusDone || v.Counts[activity.Delivered] != len(to)) {
							t.Errorf("%s: %s %v, %v", id, v.Status, v.Counts, err)
						}
						for _, inbox := range to {
							if n := accepted[id][inbox]; last && n != 1 {
								t.Errorf("%s got %s %d times", inbox, id, n)
							}
						}
					}
					now = w.Now().Add(time.Second)
				})
			}
			if len(sent) != 10 {
				t.Errorf("%d activities were sent", len(sent))
			}
		})
	}
}
