package deliver_test

import (
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/testkit/world"
)

// TestRecipientsOfAStoredPayloadThatIsGoneAreDead: they were shown as queued for ever.
func TestRecipientsOfAStoredPayloadThatIsGoneAreDead(t *testing.T) {
	for name, n := range map[string]int{"one chunk": 7, "many chunks": 320} {
		t.Run(name, func(t *testing.T) {
			w := world.New(t, world.Options{})
			first := w.Activity("Create")
			ids := []activity.ID{first.ID, activity.InBatch(first.ID, 1)}
			for _, id := range ids {
				record(t, w, id, inboxes(n))
			}
			other := w.Send(w.Activity("Create"), inboxes(3)...)
			put(t, w, queue.Normal, message.Message{Ref: &message.Ref{ID: string(first.ID), Parts: 2}})
			w.Work()
			for _, id := range ids {
				v := look(t, w, id)
				if v.Status != ledger.StatusDone || v.Counts[activity.Dead] != n || len(v.Counts) != 1 {
					t.Errorf("%s is %s with %v", id, v.Status, v.Counts)
				}
				for _, r := range v.Recipients {
					if r.State != activity.Dead || r.LastError == "" {
						t.Errorf("%s is %s, %q", r.Inbox, r.State, r.LastError)
					}
				}
			}
			if v := look(t, w, other); v.Counts[activity.Delivered] != 3 {
				t.Errorf("another activity has %v", v.Counts)
			}
			got, err := w.Engine.Queue(queue.Dead).Receive(t.Context(), queue.ReceiveOptions{Max: 10})
			if err != nil || len(got) != 1 || got[0].Attributes["reason"] != "payload" || got[0].Attributes["error"] == "" {
				t.Errorf("the dead-letter queue has %+v, %v", got, err)
			}
		})
	}
}

// TestWhatWasSentOfALostFanOutGoesOn: only the chunks that were not planned are lost.
func TestWhatWasSentOfALostFanOutGoesOn(t *testing.T) {
	w := slowWorld(t, queue.Standard)
	to := inboxes(5_000)
	a := w.Activity("Create")
	record(t, w, a.ID, to)
	put(t, w, queue.Normal, refer(t, w, string(a.ID), message.Message{Activity: &a, FanOut: &message.FanOut{Targets: targets(to)}}))
	if w.Poll(queue.Normal) != 1 {
		t.Fatal("nothing received")
	}
	w.Clock.Advance(2 * time.Hour) // the payload was stored for an hour
	w.Work()
	v := look(t, w, a.ID)
	if d, lost := v.Counts[activity.Delivered], v.Counts[activity.Dead]; d < 1000 || lost < 1000 || d+lost != len(to) || v.Status != ledger.StatusDone {
		t.Errorf("%s with %v", v.Status, v.Counts)
	}
	for inbox, n := range w.Servers.Accepted()[a.ID] {
		if n != 1 {
			t.Errorf("%s got it %d times", inbox, n)
		}
	}
}

// record writes the record of an activity to inboxes, as it is written when it is accepted.
func record(t *testing.T, w *world.World, id activity.ID, to []string) {
	t.Helper()
	r := ledger.Record{ID: id, CreatedAt: w.Now(), Recipients: len(to), Targets: len(to), Chunk: ledger.ChunkSize, Forget: w.Now().Add(30 * day)}
	if len(to) <= r.Chunk {
		r.Inline = targets(to)
	}
	if err := w.Store.CreateActivity(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

func look(t *testing.T, w *world.World, id activity.ID) ledger.View {
	t.Helper()
	v, err := ledger.ViewOf(t.Context(), w.Store, id, "", 100, w.Now())
	if err != nil {
		t.Fatal(err)
	}
	return v
}
