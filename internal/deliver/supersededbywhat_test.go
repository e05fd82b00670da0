package deliver_test

import (
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/testkit/world"
)

// TestWhatIsCancelledSupersedesNothing: the newest activity about a note is the newest one that is
// not cancelled, so an inbox whose server was down gets it.
func TestWhatIsCancelledSupersedesNothing(t *testing.T) {
	w := world.New(t, world.Options{})
	const inbox = "https://down.example/inbox"
	w.Servers.Script("down.example", world.Down)
	first := w.Send(about(w, "Update", "first"), inbox)
	w.Run(10*time.Minute, time.Second)
	second := w.Send(about(w, "Update", "second"), inbox)
	w.Run(time.Minute, time.Second)
	if err := w.Store.CancelActivity(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	w.Servers.Script("down.example", nil)
	w.Run(3*time.Hour, time.Second)
	w.Expect(first, map[string]activity.State{inbox: activity.Delivered})
	w.Quiet()
}

// TestWhatExpiresSoonerSupersedesNothing: an inbox whose server is down until the newer activity
// has expired gets the older one.
func TestWhatExpiresSoonerSupersedesNothing(t *testing.T) {
	w := world.New(t, world.Options{})
	const inbox = "https://down.example/inbox"
	w.Servers.Script("down.example", world.Down)
	first := w.Send(about(w, "Update", "first"), inbox)
	w.Run(10*time.Minute, time.Second)
	short := about(w, "Update", "second")
	short.ExpiresAt = w.Now().Add(20 * time.Minute)
	second := w.Send(short, inbox)
	w.Run(time.Hour, time.Second)
	w.Servers.Script("down.example", nil)
	w.Run(3*time.Hour, time.Second)
	w.Expect(first, map[string]activity.State{inbox: activity.Delivered})
	if n := len(w.Servers.Accepted()[second]); n > 0 {
		t.Error("the newer was sent after its end")
	}
	w.Quiet()
}

// TestWhatWasDeliveredSupersedesThoughItIsOver: an inbox that has the newer activity does not get
// the older one, whatever became of the newer one since.
func TestWhatWasDeliveredSupersedesThoughItIsOver(t *testing.T) {
	for name, end := range map[string]func(*world.World, activity.ID){
		"cancelled": func(w *world.World, id activity.ID) {
			if err := w.Store.CancelActivity(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		},
		"expired": func(*world.World, activity.ID) {},
	} {
		w := world.New(t, world.Options{})
		const inbox = "https://a.example/inbox"
		older := about(w, "Update", "older")
		w.Run(time.Second, time.Second)
		newer := about(w, "Update", "newer")
		newer.ExpiresAt = w.Now().Add(time.Minute)
		second := w.Send(newer, inbox)
		w.Run(2*time.Second, time.Second)
		w.Expect(second, map[string]activity.State{inbox: activity.Delivered})
		end(w, second)
		w.Run(5*time.Minute, time.Second)
		first := w.Send(older, inbox) // its message comes late
		w.Run(time.Minute, time.Second)
		w.Expect(first, map[string]activity.State{inbox: activity.Superseded})
		if n := len(w.Servers.Accepted()[first]); n > 0 {
			t.Errorf("%s: the older was sent after the newer", name)
		}
	}
}
