package deliver_test

import (
	"fmt"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/testkit/world"
)

// about makes an activity about a note, with its text.
func about(w *world.World, typ, text string) activity.Activity {
	a := w.Activity(typ)
	a.Coalesce = activity.CoalesceLatest
	a.Body = fmt.Sprintf(`{"type":%q,"object":{"id":"https://we.example/notes/1","type":"Note","content":%q}}`, typ, text)
	return a
}

func TestOfABurstForAServerThatIsDownOnlyTheNewestIsSent(t *testing.T) {
	for _, ordering := range []string{"", "note 1"} {
		w := world.New(t, world.Options{})
		const inbox = "https://down.example/inbox"
		w.Servers.Script("down.example", world.Down)
		w.Send(w.Activity("Like"), inbox)
		w.Run(2*time.Minute, time.Second) // its circuit is open
		var ids []activity.ID
		for i := range 6 {
			a := about(w, "Update", fmt.Sprint("version ", i))
			a.OrderingKey = ordering
			ids = append(ids, w.Send(a, inbox))
			w.Run(10*time.Second, time.Second)
		}
		w.Servers.Script("down.example", nil)
		w.Run(3*time.Hour, time.Second)
		last := len(ids) - 1
		w.Expect(ids[last], map[string]activity.State{inbox: activity.Delivered})
		for _, id := range ids[:last] {
			w.Expect(id, map[string]activity.State{inbox: activity.Superseded})
			if by := w.States(id)[inbox].By; by == "" || by == id {
				t.Errorf("%s was superseded by %q", id, by)
			}
		}
		for _, id := range ids[:last] {
			if n := len(w.Servers.Accepted()[id]); n > 0 {
				t.Errorf("%s was sent", id)
			}
		}
		w.Quiet()
	}
}

func TestAnUpdateThatChangesNothingIsNotSent(t *testing.T) {
	w := world.New(t, world.Options{})
	const inbox = "https://a.example/inbox"
	first := w.Send(about(w, "Update", "same"), inbox)
	w.Run(time.Second, time.Second)
	second := w.Send(about(w, "Update", "same"), inbox)
	w.Run(time.Second, time.Second)
	third := w.Send(about(w, "Update", "other"), inbox)
	w.Run(time.Second, time.Second)
	w.Expect(first, map[string]activity.State{inbox: activity.Delivered})
	w.Expect(second, map[string]activity.State{inbox: activity.Redundant})
	w.Expect(third, map[string]activity.State{inbox: activity.Delivered})
	if by := w.States(second)[inbox].By; by != first {
		t.Errorf("redundant by %q", by)
	}
}

// TestWhatAWorkerDeliveredBeforeItDiedMakesTheNextRedundant: its journal has what inbox a
// took; it died before it told the coalescer.
func TestWhatAWorkerDeliveredBeforeItDiedMakesTheNextRedundant(t *testing.T) {
	w := world.New(t, world.Options{})
	const a, b = "https://a.example/inbox", "https://b.example/inbox"
	first := w.Send(about(w, "Update", "same"), a, b)
	chunk := message.Unit{Activity: first, Position: message.Whole}
	known, err := w.Store.Inspect(t.Context(), chunk)
	if err != nil {
		t.Fatal(err)
	}
	known.Journal = "journal"
	if _, err := w.Store.Claim(t.Context(), chunk, known, "worker", w.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	took := ledger.Recipient{Target: activity.Target{Inbox: a, Stands: 1}, State: activity.Delivered, Attempts: 1, LastStatus: 202, UpdatedAt: w.Now()}
	if err := w.Store.WriteJournal(t.Context(), "journal", 0, []ledger.JournalEntry{{Unit: chunk, Recipients: []ledger.Recipient{took}, Forget: w.Now().Add(30 * day)}}); err != nil {
		t.Fatal(err)
	}
	w.Run(5*time.Minute, time.Second)
	w.Expect(first, map[string]activity.State{a: activity.Delivered, b: activity.Delivered})
	second := w.Send(about(w, "Update", "same"), a, b)
	w.Run(time.Second, time.Second)
	w.Expect(second, map[string]activity.State{a: activity.Redundant, b: activity.Redundant})
	if n := len(w.Servers.Accepted()[first]); n != 1 {
		t.Errorf("%d inboxes were sent the first, want b only", n)
	}
}

func TestAFailedAttemptMakesNothingRedundant(t *testing.T) {
	w := world.New(t, world.Options{})
	const inbox = "https://a.example/inbox"
	w.Servers.Script("a.example", world.Answers(400))
	w.Send(about(w, "Update", "same"), inbox)
	w.Run(time.Second, time.Second)
	w.Servers.Script("a.example", nil)
	second := w.Send(about(w, "Update", "same"), inbox)
	w.Run(time.Second, time.Second)
	w.Expect(second, map[string]activity.State{inbox: activity.Delivered})
}
