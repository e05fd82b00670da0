package deadletter_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/testkit/world"
)

func noise(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		s := sha256.Sum256([]byte(fmt.Sprint(i)))
		b.WriteString(hex.EncodeToString(s[:]))
	}
	return b.String()[:n]
}

// TestAForgottenRevivedActivityHoldsNobodyUp: an ordered activity that has died at ten inboxes of
// a host is parked again, forgotten by its caller, and its record ends before its spots do.
func TestAForgottenRevivedActivityHoldsNobodyUp(t *testing.T) {
	for _, forget := range []bool{false, true} {
		t.Run(fmt.Sprint("forget ", forget), func(t *testing.T) {
			w := newComeback(t, world.Options{}, for60(100*oneDay))
			w.Servers.Script("down.example", func(r world.Request, n int) outcome.Outcome {
				at := r.At.Sub(world.Start)
				switch {
				case r.Activity.ID == "" && at > 8*oneDay:
					return world.Status(200)
				case r.Activity.ID != "" && at > 13*oneDay:
					return world.Status(202)
				}
				return world.Down(r, n)
			})
			w.send(6) // opens the circuit
			w.Run(time.Hour, time.Minute)
			a := w.Activity("Update")
			a.OrderingKey, a.Body = "actor", `{"x":"`+noise(5000)+`"}`
			var to []string
			for i := range 10 {
				to = append(to, fmt.Sprintf("https://down.example/%d", i))
			}
			id := w.Send(a, to...)
			w.Run(10*oneDay+12*time.Hour, time.Minute)
			// RECORD_RETENTION is so long.
			if err := w.Raw().KeepActivity(t.Context(), id, world.Start.Add(12*oneDay)); err != nil {
				t.Fatal(err)
			}
			if forget {
				f := deadletter.Forgetter{Ledger: w.Raw(), Parked: w.Raw(), Store: w.Raw(), Now: w.Clock.Now}
				if err := f.Forget(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
			live := w.send(3)
			w.Log.Reset()
			w.Run(5*oneDay, time.Minute)
			if got := w.states(live); got[activity.Delivered] != 3 {
				t.Errorf("three days after the host is back: %v; log %.600s", got, w.Log.String())
			}
		})
	}
}
