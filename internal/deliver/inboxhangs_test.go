package deliver_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/deliver"
	"fedpost/internal/protocol"
	"fedpost/internal/testkit/world"
)

// TestAnInboxThatHangsHoldsUpNoOtherOfItsHost has five deliveries to an inbox that hangs, at a
// host that is new: the others of the host are made meanwhile, and the inbox is down, not the
// host.
func TestAnInboxThatHangsHoldsUpNoOtherOfItsHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var good atomic.Int32
		crowd := world.SenderFunc(func(context.Context, activity.Activity) protocol.Attempt {
			return func(ctx context.Context, to activity.Target, _ int) outcome.Outcome {
				if strings.Contains(to.Inbox, "hangs") {
					return world.Hang(ctx)
				}
				good.Add(1)
				return world.Status(202)
			}
		})
		w := world.New(t, world.Options{Now: time.Now, Protocol: crowd, Limits: deliver.Limits{PerQueue: 400}})
		for range 5 {
			w.Send(w.Activity("Create"), "https://one.example/hangs/inbox")
		}
		for n := range 3 {
			w.Send(w.Activity("Create"), fmt.Sprintf("https://one.example/%d/inbox", n))
		}
		wait := pollAll(t, w, 8)
		if good.Load() != 3 {
			t.Errorf("%d of 3 deliveries were made at once beside an inbox that hangs", good.Load())
		}
		wait()
		ss, err := w.Raw().Servers(t.Context(), "host:one.example", "inbox:https://one.example/hangs/inbox")
		if err != nil || !ss["host:one.example"].Accepts(time.Now()) || ss["inbox:https://one.example/hangs/inbox"].Accepts(time.Now()) {
			t.Errorf("%v: host %q, inbox %q; want the inbox down, and not the host", err, ss["host:one.example"].Phase, ss["inbox:https://one.example/hangs/inbox"].Phase)
		}
	})
}
