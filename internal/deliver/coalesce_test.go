package deliver_test

import (
	"fmt"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/testkit/world"
)

// about makes an activity about a note, with its text.
func about(w *world.World, typ, text string) activity.Activity {
	a := w.Activity(typ)
	a.Coalesce = activity.CoalesceLatest
	a.Body = fmt.Sprintf(`{"type":%q,"object":{"id":"https://we.example/notes/1","type":"Note","content":%q}}`, typ, text)
	return a
}

func TestC1OfABurstForAServerThatIsDownOnlyTheNewestIsSent(t *testing.T) {
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

func TestC1AnUpdateThatBringsNoNewsIsNotSent(t *testing.T) {
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

func TestC1AFailedAttemptMakesNothingRedundant(t *testing.T) {
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
