package deliver_test

import (
	"errors"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/testkit/world"
)

// TestAnActivityIsFoundWhereverItIsStored, whoever needs it there.
func TestAnActivityIsFoundWhereverItIsStored(t *testing.T) {
	w := world.New(t, world.Options{})
	w.Servers.Script("down.example", world.Down)
	w.Servers.Script("strict.example", world.Answers(404))
	const down = "https://down.example/inbox"
	parked := w.Activity("Create")
	w.Send(parked, "https://up.example/inbox", down)
	w.Run(10*time.Minute, time.Second)
	untried, large, delivered, refused, dead := w.Activity("Like"), largeActivity(w, 64<<10), w.Activity("Create"), w.Activity("Create"), w.Activity("Create")
	w.Send(untried, down)
	w.Send(large, down, "https://down.example/other")
	w.Send(delivered, "https://up.example/inbox")
	w.Send(refused, "https://strict.example/inbox")
	w.Send(dead, down)
	w.Work()
	bury(t, w, dead)

	for name, c := range map[string]struct {
		a     activity.Activity
		found bool
	}{
		"parked": {parked, true}, "parked untried": {untried, true}, "stored once": {large, true}, "refused": {refused, true}, "dead": {dead, true},
		"delivered": {delivered, false}, "unknown": {w.Activity("Create"), false},
	} {
		body, err := w.Raw().FindBody(t.Context(), c.a.ID)
		if c.found && (err != nil || body != c.a.Body) {
			t.Errorf("%s: found %.40q, want %.40q: %v", name, body, c.a.Body, err)
		}
		if !c.found && !errors.Is(err, ledger.ErrNoContent) {
			t.Errorf("%s: found %.40q, want %v: %v", name, body, ledger.ErrNoContent, err)
		}
	}
}

// bury ends the only recipient of an activity that is parked untried.
func bury(t *testing.T, w *world.World, a activity.Activity) {
	t.Helper()
	r, err := w.Raw().Activity(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	chunks, err := w.Raw().Chunks(t.Context(), r, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	last := ledger.Recipient{Target: r.Inline[0], State: activity.Dead, Generation: 3, UpdatedAt: w.Now()}
	l := deadletter.DeadLetter{
		Activity: a, Delivery: message.Delivery{Targets: r.Inline, Generation: 4}, Last: last, Died: w.Now(), Forget: r.Forget,
	}
	if err := w.Raw().Unpark(t.Context(), ledger.ParkedIDs(r, chunks)); err != nil {
		t.Fatal(err)
	}
	if err := w.Raw().AddDeadLetters(t.Context(), []deadletter.DeadLetter{l}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Raw().PutRecipients(t.Context(), a.ID, []ledger.Recipient{last}, r.Forget); err != nil {
		t.Fatal(err)
	}
}
