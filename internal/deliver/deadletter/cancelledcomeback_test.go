package deadletter_test

import (
	"testing"
	"time"

	"fedpost/internal/testkit/world"
)

// TestWhatWasCancelledWhileDeadStaysCancelled, although the server comes back after the end of the
// record that says so, as it may with REVIVE_WITHIN=30d and RECORD_RETENTION=30d.
func TestWhatWasCancelledWhileDeadStaysCancelled(t *testing.T) {
	w := newComeback(t, world.Options{}, for60(33*oneDay))
	ids := w.send(3)
	for _, id := range ids { // production: due.Add(retention), retention 30 days
		if err := w.Raw().KeepActivity(t.Context(), id, world.Start.Add(30*oneDay)); err != nil {
			t.Fatal(err)
		}
	}
	w.Run(9*oneDay, 5*time.Minute)
	if err := w.Raw().CancelActivity(t.Context(), ids[0]); err != nil {
		t.Fatal(err)
	}
	w.Run(26*oneDay, 5*time.Minute)
	if n := w.Servers.Accepted()[ids[0]][downInbox]; n != 0 {
		t.Errorf("what was cancelled on day 9 was sent %d times after day 33", n)
	}
}
