package deliver_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/deliver"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger"
	"fedpost/internal/testkit/world"
)

// neverRecords is a ledger to which notes come through and records do not: what a
// process leaves that dies while it waits for a slow server.
type neverRecords struct{ ledger.Store }

func (neverRecords) Record(context.Context, *ledger.Claim, []ledger.Recipient, bool) error {
	return errors.New("injected: the process dies")
}

// TestWhatWasNotedIsNotSentAgain: 3 chunks of an invocation have 29 hosts that
// answer at once and one each that hangs, and then nothing is recorded. The next
// worker sends to the hosts that hung, and to no other.
func TestWhatWasNotedIsNotSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, world.Options{Now: time.Now})
		var ids []activity.ID
		for i := range 3 {
			var to []string
			for k := range 30 {
				to = append(to, fmt.Sprintf("https://h%d-%d.example/inbox", i, k))
			}
			w.Servers.Script(fmt.Sprintf("h%d-7.example", i), func(_ world.Request, n int) outcome.Outcome {
				if n == 1 {
					time.Sleep(12 * time.Second) // virtual
					return outcome.Outcome{Class: outcome.Retry, Reason: outcome.Timeout, Err: "no answer in time"}
				}
				return world.Status(202)
			})
			ids = append(ids, w.Send(w.Activity("Create"), to...))
		}
		dying := w.Config()
		dying.Ledger = neverRecords{dying.Ledger}
		w.Deliver = deliver.New(dying)
		w.Poll(queue.Normal)
		w.Restart()
		for range 10 {
			time.Sleep(time.Minute) // virtual: claims and visibility time-outs lapse
			w.Poll(queue.Normal)
		}
		for i, id := range ids {
			for inbox, n := range w.Servers.Accepted()[id] {
				if n != 1 {
					t.Errorf("%s got activity %d %d times", inbox, i, n)
				}
			}
			if n := len(w.Servers.Accepted()[id]); n != 30 {
				t.Errorf("activity %d reached %d of 30", i, n)
			}
		}
	})
}
