package deliver_test

import (
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/app/topology"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/message/claimcheck"
	"fedpost/internal/testkit/world"
)

// TestWhoGivesUpAClaimCheckRecordsItsActivity, as TestWhoGivesUpAMessageRecordsItsActivity
// has it for a message that is not behind a claim check.
func TestWhoGivesUpAClaimCheckRecordsItsActivity(t *testing.T) {
	w := world.New(t, world.Options{})
	a, to := w.Activity("Create"), inboxes(120)
	m := message.Message{Activity: &a, FanOut: &message.FanOut{Targets: targets(to)}, Unrecorded: &message.Unrecorded{Forget: w.Now().Add(72 * time.Hour)}}
	n, err := claimcheck.Put(t.Context(), w.Store, string(a.ID), world.Encode(t, m), w.Now().Add(720*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	put(t, w, queue.Normal, message.Message{Ref: &message.Ref{ID: string(a.ID), Parts: n}})
	q := w.Engine.Queue(queue.Normal)
	for range topology.Of(queue.Normal).MaxReceives - 1 {
		if got, err := q.Receive(t.Context(), queue.ReceiveOptions{Max: 1}); err != nil || len(got) != 1 {
			t.Fatalf("%d received, %v", len(got), err)
		}
		w.Clock.Advance(topology.Of(queue.Normal).Visibility) // the process dies
	}
	w.Work()
	v, err := ledger.ViewOf(t.Context(), w.Store, a.ID, "", 200, w.Now())
	if err != nil || v.Status != ledger.StatusDone || v.Counts[activity.Dead] != 120 {
		t.Errorf("%s %v, %v", v.Status, v.Counts, err)
	}
}

// TestAClaimCheckOfItselfIsGivenUp: what is damaged so does not end the process that gives it up.
func TestAClaimCheckOfItselfIsGivenUp(t *testing.T) {
	w := world.New(t, world.Options{})
	ref := message.Ref{ID: string(w.Activity("Create").ID), Parts: 1}
	body := world.Encode(t, message.Message{Ref: &ref})
	if n, err := claimcheck.Put(t.Context(), w.Store, ref.ID, body, w.Now().Add(720*time.Hour)); err != nil || n != ref.Parts {
		t.Fatalf("stored in %d parts, error %v; want %d", n, err, ref.Parts)
	}
	put(t, w, queue.Normal, message.Message{Ref: &ref})
	w.Work()
	if got := receive(t, w, queue.Normal.DeadLetter()); len(got) != 1 {
		t.Errorf("%d messages are in the dead-letter queue, want 1", len(got))
	}
}
