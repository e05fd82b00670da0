package deliver_test

import (
	"fmt"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/testkit/world"
)

// Actors of a stranger named pages of another server as their inboxes. Each page answered
// with an error, so the circuit of that server opened, and all its trials went to pages:
// with ten of them 10 of 24 deliveries to the server's own inbox died and 4 were parked for
// a week, and with thirty 23 were.
func TestWhoNamesPagesOfAServerAsInboxesKeepsItsUsersFromNothing(t *testing.T) {
	const pages, posts = 20, 4
	const inbox, bob = "https://victim.example/inbox", "https://victim.example/users/bob/inbox"
	reset := func(world.Request, int) outcome.Outcome {
		return outcome.Outcome{Class: outcome.Retry, Reason: outcome.ConnReset, Err: "connection reset"}
	}
	for name, c := range map[string]struct {
		page   world.Script
		outage bool // of the server's own inbox
	}{
		"that redirect":           {page: world.Answers(302)},
		"that reset connections":  {page: reset},
		"and the server restarts": {page: world.Answers(500), outage: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := world.New(t, world.Options{})
			all := []string{inbox}
			for n := range pages {
				page := fmt.Sprintf("https://victim.example/page%d", n)
				w.Servers.Script(page, c.page)
				all = append([]string{page}, all...)
			}
			w.Send(w.Activity("Create"), inbox)
			w.Run(time.Hour, time.Minute)
			var ids []activity.ID
			for n := range posts {
				ids = append(ids, w.Send(w.Activity("Create"), all...))
				if c.outage && n == 1 {
					w.Servers.Script(inbox, world.Down)
					w.Run(20*time.Minute, 10*time.Second)
					w.Servers.Script(inbox, nil)
				}
				w.Run(time.Hour, 20*time.Second)
			}
			accept := w.Send(w.Activity("Accept"), bob)
			w.Run(time.Hour, 20*time.Second)
			w.Expect(accept, map[string]activity.State{bob: activity.Delivered})
			for n, id := range ids {
				if got := w.States(id)[inbox].State; got != activity.Delivered {
					t.Errorf("post %d to the server's own inbox is %s", n, got)
				}
			}
			before := len(w.Servers.Got())
			w.Run(24*time.Hour, 15*time.Minute)
			if day := len(w.Servers.Got()) - before; before > 20*pages || day > 2*pages {
				t.Errorf("%d POSTs in the first hours and %d in the day after, to %d pages that take nothing", before, day, pages)
			}
		})
	}
}
