package deadletter_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/message/agenda"
	"fedpost/internal/testkit/world"
)

// TestDelayedWorkThatNoQueueTakesEndsWithRecordsAndDeadLetters, of which
// repeating makes no second one.
func TestDelayedWorkThatNoQueueTakesEndsWithRecordsAndDeadLetters(t *testing.T) {
	w := newAfterlife(t, world.Options{})
	aside := deadletter.Aside{Writer: w.writer, Ledger: w.Store, Payloads: w.Store, Now: w.Now}
	small, large := w.Activity("Create"), w.Activity("Create")
	var to []activity.Target
	for i := range 120 {
		to = append(to, activity.Target{Inbox: fmt.Sprintf("https://host%d.example/inbox", i), Stands: 1})
	}
	for _, r := range []ledger.Record{
		{ID: small.ID, Recipients: 2, Targets: 2, Chunk: ledger.ChunkSize, Inline: to[:2]},
		{ID: large.ID, Recipients: 120, Targets: 120, Chunk: ledger.ChunkSize},
	} {
		r.Forget = w.Now().Add(24 * time.Hour)
		if err := w.Store.CreateActivity(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	task := agenda.Task{ID: "x", Queue: queue.Normal, Body: world.Encode(t, message.Message{Batch: []message.Message{
		{Activity: &small, Deliver: &message.Delivery{Position: message.Whole, Targets: to[:2]}},
		{Activity: &large, FanOut: &message.FanOut{Targets: to}},
	}})}
	for range 2 {
		if err := aside.SetAside(t.Context(), task, queue.ErrInvalid); err != nil {
			t.Fatal(err)
		}
	}
	for id, n := range map[activity.ID]int{small.ID: 2, large.ID: 120} {
		v, err := ledger.ViewOf(t.Context(), w.Store, id, "", 200, w.Now())
		if err != nil || v.Status != ledger.StatusDone || v.Counts[activity.Dead] != n || len(v.Recipients) != n {
			t.Errorf("%s: %s %v, %v", id, v.Status, v.Counts, err)
		}
		if got := w.dead(deadletter.Filter{Activity: id}); len(got) != n || got[0].Reason != "refused" {
			t.Errorf("%d dead letters, want %d", len(got), n)
		}
	}
}

func TestATaskThatCannotBeReadLeavesAMessageForOperators(t *testing.T) {
	w := newAfterlife(t, world.Options{})
	aside := deadletter.Aside{Writer: w.writer, Ledger: w.Store, Payloads: w.Store, Now: w.Now}
	for _, task := range []agenda.Task{
		{ID: "a", Damaged: errors.New("bits")},
		{ID: "a", Body: "{"},
		{ID: "a", Body: `{"v":1,"ref":{"id":"gone","parts":1}}`},
	} {
		if err := aside.SetAside(t.Context(), task, queue.ErrInvalid); err != nil {
			t.Fatal(err)
		}
		got, err := w.Engine.Queue(queue.Dead).Receive(t.Context(), queue.ReceiveOptions{Max: 10})
		if err != nil || len(got) != 1 || got[0].Body != `{"unreadable":"a"}` || got[0].Attributes["reason"] != "malformed" {
			t.Errorf("%+v: %+v, %v", task, got, err)
		}
	}
}
