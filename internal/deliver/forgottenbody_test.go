package deliver_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/testkit/world"
)

// TestABodyStoredAfterItsActivityWasForgottenGoes: attempts that are under way when a caller
// forgets an activity lead to retries, for which the body was stored once, and kept for months.
func TestABodyStoredAfterItsActivityWasForgottenGoes(t *testing.T) {
	w := world.New(t, world.Options{})
	a, to := largeActivity(w, 64<<10), inboxes(30)
	a.ID = w.Send(a, to...)
	var forgotten sync.Once
	for i := range to {
		w.Servers.Script(fmt.Sprintf("h%d.example", i), func(r world.Request, n int) outcome.Outcome {
			forgotten.Do(func() {
				f := deadletter.Forgetter{Ledger: w.Raw(), Parked: w.Raw(), Store: w.Raw(), Now: w.Clock.Now}
				if err := f.Forget(context.Background(), a.ID); err != nil {
					t.Error(err)
				}
			})
			return world.Down(r, n)
		})
	}
	kept := func() (sks []string) {
		items, _, err := w.Engine.Table().Query(t.Context(), table.Range{PK: "A#" + string(a.ID)})
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range items {
			if strings.HasPrefix(it.SK, "BODY#") {
				sks = append(sks, it.SK)
			}
		}
		return sks
	}
	w.Poll(queue.Normal)
	if got := kept(); len(got) != 1 {
		t.Fatalf("after the attempts %q are kept: this test shows nothing", got)
	}
	for restarted := range 2 { // the process that knows the body, and another
		w.Run(time.Hour, time.Minute)
		if got := kept(); len(got) != 0 {
			t.Errorf("an hour later %q are kept, restarted %d times", got, restarted)
		}
		w.Restart()
	}
	if got := len(w.Servers.Got()); got != len(to) {
		t.Errorf("%d requests to %d inboxes", got, len(to))
	}
}
