package deadletter_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/engines"
	"fedpost/internal/testkit/faults"
	"fedpost/internal/testkit/world"
)

func forgetter(w *world.World) deadletter.Forgetter {
	return deadletter.Forgetter{Ledger: w.Store, Parked: w.Store, Store: w.Store, Now: w.Clock.Now}
}

// left lists what the table still has of an activity, but for the mark.
func left(t *testing.T, w *world.World, id activity.ID) (keys []string) {
	t.Helper()
	items, _, err := w.Engine.Table().Query(context.Background(), table.Range{PK: "A#" + string(id)})
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range items {
		if it.SK != "META" {
			keys = append(keys, it.SK)
		}
	}
	return keys
}

func TestAForgottenActivityLeavesNothingAndIsNeverSent(t *testing.T) {
	for name, body := range map[string]string{"small": `{"type":"Create"}`, "large": `{"x":"` + strings.Repeat("äöü?!", 60_000) + `"}`} {
		for _, key := range []string{"", "thread"} {
			t.Run(name+key, func(t *testing.T) {
				w := world.New(t, world.Options{})
				w.Servers.Spare()
				const down = "https://down.example/inbox"
				w.Servers.Script("down.example", world.Down)
				w.Servers.Script("refuses.example", world.Answers(404))
				for range 6 { // opens the circuit
					w.Send(w.Activity("Create"), down)
				}
				a, other := w.Activity("Create"), w.Activity("Create")
				a.Body, a.OrderingKey = body, key
				id := w.Send(a, down, noInbox, fine)
				kept := w.Send(other, down)
				w.Run(time.Hour, time.Minute)
				w.Expect(id, map[string]activity.State{noInbox: activity.Failed, fine: activity.Delivered})
				if n := w.Parked(circuit.HostKey("down.example")); n != 8 {
					t.Fatalf("%d are parked", n)
				}
				before := w.Parked(circuit.HostKey("down.example"))
				if err := forgetter(w).Forget(t.Context(), id); err != nil {
					t.Fatal(err)
				}
				if got := left(t, w, id); len(got) > 0 {
					t.Errorf("left: %v", got)
				}
				if got := before - w.Parked(circuit.HostKey("down.example")); key == "" && got != 1 {
					t.Errorf("%d spots were emptied", got)
				}
				if _, err := ledger.ViewOf(t.Context(), w.Store, id, "", 10, w.Now()); !errors.Is(err, ledger.ErrNotFound) {
					t.Errorf("shown: %v", err)
				}
				if err := forgetter(w).Forget(t.Context(), id); !errors.Is(err, ledger.ErrNotFound) {
					t.Errorf("forgotten twice: %v", err)
				}
				w.Servers.Script("down.example", world.Answers(202))
				w.Run(2*time.Hour, time.Minute)
				got := w.Servers.Accepted()
				if got[id][down] != 0 || got[kept][down] != 1 {
					t.Errorf("after the outage: %v, the other %v", got[id], got[kept])
				}
			})
		}
	}
}

func TestADeadActivityIsForgottenWithItsLetters(t *testing.T) {
	w := newAfterlife(t, world.Options{Engine: engines.Embedded()})
	w.sicken()
	id, other := w.Send(w.Activity("Create"), sickInbox, noInbox), w.Send(w.Activity("Create"), sickInbox)
	w.pass(10 * time.Minute)
	if err := forgetter(w.World).Forget(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if ls := w.dead(deadletter.Filter{}); len(ls) != 1 || ls[0].Activity.ID != other {
		t.Errorf("dead letters left: %+v", ls)
	}
	if _, err := w.retrier().Retry(t.Context(), id, both, "", w.Clock.Now()); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("retried: %v", err)
	}
	// The message in the queue of dead letters revives nothing.
	before := len(w.Servers.Got())
	if n := w.redrive(t, queue.Normal); n != 2 {
		t.Fatalf("redrove %d", n)
	}
	w.pass(10 * time.Minute)
	for _, g := range w.Servers.Got()[before:] {
		if g.Activity.ID == id {
			t.Errorf("sent again: %+v", g)
		}
	}
}

func TestForgettingIsSafeWhateverCallFails(t *testing.T) {
	engines.Sweep(t, func(t *testing.T, e engines.Engine, p *faults.Plan) {
		w := newAfterlife(t, world.Options{Engine: e, Plan: p})
		mend := w.sicken()
		id := w.Send(w.Activity("Create"), sickInbox, noInbox, fine)
		w.pass(time.Minute)
		w.insist(p, func() error {
			err := forgetter(w.World).Forget(context.Background(), id)
			if errors.Is(err, ledger.ErrNotFound) {
				return nil // the try before had done it, and lost its answer
			}
			return err
		})
		sent := w.Servers.Accepted()[id][sickInbox]
		mend()
		w.pass(15 * time.Minute)
		if n := w.Servers.Accepted()[id][sickInbox]; n != sent {
			t.Errorf("sent after it was forgotten")
		}
		if _, err := ledger.ViewOf(context.Background(), w.Raw(), id, "", 10, w.Clock.Now()); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("shown: %v", err)
		}
	})
}
