package deliver_test

import (
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/ledger"
	"fedpost/internal/testkit/world"
)

// TestADeliveryParkedWithoutAnAttemptSaysWhy: it has no record, so only its server's circuit
// can tell.
func TestADeliveryParkedWithoutAnAttemptSaysWhy(t *testing.T) {
	w := world.New(t, world.Options{})
	w.Servers.Script("down.example", world.Down)
	for range 6 {
		w.Send(w.Activity("Create"), "https://down.example/inbox")
	}
	w.Run(20*time.Second, time.Second)
	before := len(w.Servers.Got())
	id := w.Send(w.Activity("Create"), "https://down.example/inbox")
	w.Run(10*time.Second, time.Second)
	v, err := ledger.ViewOf(t.Context(), w.Store, id, "", 10, w.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := ledger.Explain(t.Context(), w.Store, v.Recipients, w.Now()); err != nil {
		t.Fatal(err)
	}
	if n := len(w.Servers.Got()) - before; n != 0 {
		t.Fatalf("%d attempts", n)
	}
	r := v.Recipients[0]
	if r.State != activity.Parked || r.Attempts != 0 || r.Reason != "connection refused since 12:00 UTC" || r.WaitsFor != "down.example" || !r.NextAttemptAt.After(w.Now()) {
		t.Errorf("%s after %d attempts, reason %q, waits for %q until %s", r.State, r.Attempts, r.Reason, r.WaitsFor, r.NextAttemptAt)
	}
}
