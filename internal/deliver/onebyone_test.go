package deliver_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/deliver"
	"fedpost/internal/protocol"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/world"
)

// TestTheInboxThatAcceptsDoesNotWaitForOthersThatRefuseSlowly: refusals neither open a circuit
// nor end the rule that attempts at a host are made one at a time. The inbox was tried after 21
// minutes.
func TestTheInboxThatAcceptsDoesNotWaitForOthersThatRefuseSlowly(t *testing.T) {
	const refusing, host, good = 300, "shared.example", "https://shared.example/good"
	synctest.Test(t, func(t *testing.T) {
		began, tried := time.Now(), time.Duration(-1)
		servers := world.SenderFunc(func(context.Context, activity.Activity) protocol.Attempt {
			return func(_ context.Context, to activity.Target, _ int) outcome.Outcome {
				if to.Inbox == good {
					tried = time.Since(began)
					return world.Status(202)
				}
				time.Sleep(9 * time.Second) // virtual
				return world.Status(404)
			}
		})
		w := world.New(t, world.Options{Now: time.Now, Protocol: servers, Limits: deliver.Limits{PerQueue: 768}})
		if _, _, err := circuit.Change(t.Context(), w.Store, circuit.HostKey(host), func(s circuit.State) circuit.State {
			return s.Observe(circuit.Default(), circuit.Observation{Took: good, Vain: 16, Why: "401, then 404"}, began)
		}); err != nil {
			t.Fatal(err)
		}
		for i := range refusing {
			w.Send(w.Activity("Create"), fmt.Sprintf("https://%s/%d/inbox", host, i))
		}
		w.Send(w.Activity("Create"), good)
		for tried < 0 && time.Since(began) < 2*time.Hour {
			pollAll(t, w, refusing+1)()
			time.Sleep(time.Second) // virtual
		}
		if tried < 0 || tried > 3*time.Second {
			t.Errorf("it was tried after %s", tried)
		}
	})
}
