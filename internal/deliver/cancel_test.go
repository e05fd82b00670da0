package deliver_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/deliver"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
	"fedpost/internal/protocol"
	"fedpost/internal/testkit/world"
)

// TestWhatWasCancelledIsNotSentAfterItsRecordHasEnded: with RECORD_RETENTION=1d the record that
// said so ended while a delivery waited, for up to RETRY_GIVE_UP, and then it was sent.
func TestWhatWasCancelledIsNotSentAfterItsRecordHasEnded(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		ordered bool
		inboxes []string
		waits   func(*world.World) // for three days
	}{
		"parked":              {false, []string{"https://down.example/inbox"}, func(w *world.World) { w.Run(3*day, 5*time.Minute) }},
		"parked in its group": {true, []string{"https://down.example/inbox"}, func(w *world.World) { w.Run(3*day, 5*time.Minute) }},
		"a chunk on a queue":  {false, inboxes(3), func(w *world.World) { w.Clock.Advance(3 * day) }},
		"all on a queue":      {false, inboxes(200), func(w *world.World) { w.Clock.Advance(3 * day) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := world.New(t, world.Options{})
			w.Servers.Script("down.example", world.Down)
			send := func() activity.ID {
				a := w.Activity("Create")
				if c.ordered {
					a.OrderingKey = "k"
				}
				id := w.Send(a, c.inboxes...)
				if err := w.Raw().KeepActivity(t.Context(), id, world.Start.Add(day)); err != nil {
					t.Fatal(err)
				}
				return id
			}
			cancelled, other := send(), send()
			if c.inboxes[0] == "https://down.example/inbox" {
				w.Run(time.Hour, time.Minute)
			}
			if err := w.Raw().CancelActivity(t.Context(), cancelled); err != nil {
				t.Fatal(err)
			}
			c.waits(w)
			w.Servers.Script("down.example", nil)
			w.Run(day, 5*time.Minute)
			if n := len(w.Servers.Accepted()[cancelled]); n != 0 {
				t.Errorf("%d inboxes got what was cancelled three days before", n)
			}
			if n := len(w.Servers.Accepted()[other]); n != len(c.inboxes) {
				t.Errorf("%d of %d inboxes got what was not cancelled", n, len(c.inboxes))
			}
			w.Quiet()
		})
	}
}

// TestAttemptsThatHaveNotBegunWhenAnActivityIsCancelledDoNotBegin: of a chunk of 50 inboxes four
// attempts at a time take two seconds each, and the activity is cancelled, or forgotten, during
// the first four.
func TestAttemptsThatHaveNotBegunWhenAnActivityIsCancelledDoNotBegin(t *testing.T) {
	for name, forget := range map[string]bool{"cancelled": false, "forgotten": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var begun atomic.Int32
				slow := world.SenderFunc(func(context.Context, activity.Activity) protocol.Attempt {
					return func(context.Context, activity.Target, int) outcome.Outcome {
						begun.Add(1)
						time.Sleep(2 * time.Second)
						return world.Status(202)
					}
				})
				w := world.New(t, world.Options{Now: time.Now, Protocol: slow, Limits: deliver.Limits{PerQueue: 5}}) // one is kept for hosts that answer at once
				id := w.Send(w.Activity("Create"), inboxes(50)...)
				time.AfterFunc(1500*time.Millisecond, func() {
					end := w.Raw().CancelActivity
					if forget {
						end = w.Raw().ForgetActivity
					}
					if err := end(context.Background(), id); err != nil {
						t.Error(err)
					}
				})
				pollAll(t, w, 1)()
				if n := begun.Load(); n != 4 {
					t.Errorf("%d attempts were made, want the 4 that had begun", n)
				}
				pollAll(t, w, 1)()
				v, err := ledger.ViewOf(t.Context(), w.Raw(), id, "", 1, time.Now())
				if forget && !errors.Is(err, ledger.ErrNotFound) || !forget && (err != nil || v.Counts[activity.Delivered] != 4 || v.Counts[activity.Cancelled] != 46) {
					t.Errorf("%v, %v; want 4 delivered and 46 cancelled, or nothing of what is forgotten", v.Counts, err)
				}
				if begun.Load() != 4 {
					t.Errorf("%d attempts after the message came again", begun.Load())
				}
			})
		})
	}
}

// sluggish is a table that takes 2 s for a write and 20 s to say whether an activity was cancelled.
type sluggish struct{ table.Table }

func (s sluggish) Put(ctx context.Context, it table.Item, cond table.Cond) error {
	time.Sleep(2 * time.Second)
	return s.Table.Put(ctx, it, cond)
}

func (s sluggish) Get(ctx context.Context, keys ...table.Key) (map[table.Key]table.Item, error) {
	if keys[0].SK == "META" {
		time.Sleep(20 * time.Second)
	}
	return s.Table.Get(ctx, keys...)
}

// TestNoAttemptBeginsAfterALookThatTookTooLong: the look whether an activity was cancelled took so
// long that the invocation ended during the attempt, and its answer was not recorded.
func TestNoAttemptBeginsAfterALookThatTookTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, world.Options{Now: time.Now, Table: func(t table.Table) table.Table { return sluggish{t} }})
		w.Send(w.Activity("Create"), "https://well.example/1")
		batch, err := w.Engine.Queue(queue.Normal).Receive(t.Context(), queue.ReceiveOptions{Max: 10})
		if err != nil || len(batch) != 1 {
			t.Fatal(len(batch), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		failed, err := deliver.New(w.Config()).Handle(ctx, queue.Normal, batch)
		if n := len(w.Servers.Got()); err != nil || len(failed) != 1 || n != 0 {
			t.Errorf("%d requests, failed %v, %v; want the message handed back without a request", n, failed, err)
		}
	})
}
