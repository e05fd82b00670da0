package deliver_test

import (
	"fmt"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/long"
	"fedpost/internal/testkit/world"
)

// A check tries up to three inboxes, one a minute. What came meanwhile for an inbox that took all
// it got was parked, and if the check failed it waited for the next one: 10 hours of a second day,
// as did all ordered deliveries after it.
func TestWhatComesDuringACheckForAnInboxThatWorksDoesNotWaitForTheNextCheck(t *testing.T) {
	long.NotUnderRace(t)
	t.Parallel()
	const inbox, bob, pages = "https://victim.example/inbox", "https://victim.example/users/bob/inbox", 20
	for _, to := range []string{inbox, bob} {
		for _, ordered := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, ordered %t", to, ordered), func(t *testing.T) {
				w := world.New(t, world.Options{})
				w.Send(w.Activity("Create"), inbox)
				w.Run(time.Hour, time.Minute)
				var all []string
				for n := range pages {
					page := fmt.Sprintf("https://victim.example/page%d", n)
					w.Servers.Script(page, world.Answers(302))
					all = append(all, page)
				}
				w.Send(w.Activity("Create"), append(all, inbox)...)
				came := 0
				var waiting activity.ID
				var since time.Time
				for n := range 10 * 60 {
					if n%60 == 0 {
						w.Send(w.Activity("Create"), inbox)
					}
					s, err := circuit.Load(t.Context(), w.Store, circuit.HostKey("victim.example"))
					if err != nil {
						t.Fatal(err)
					}
					if waiting == "" && s.Trying(w.Clock.Now()) && s.Checks > 0 {
						a := w.Activity("Create")
						if came++; ordered {
							a.OrderingKey = "actor"
						}
						waiting, since = w.Send(a, to), w.Clock.Now()
					}
					w.Run(time.Minute, 15*time.Second)
					if waiting != "" && w.States(waiting)[to].State == activity.Delivered {
						waiting = ""
					} else if waited := w.Clock.Now().Sub(since); waiting != "" && waited > 10*time.Minute {
						t.Fatalf("a delivery to an inbox that takes all has waited %s; its server: %s", waited, world.Brief(s))
					}
				}
				if came < 3 {
					t.Errorf("%d deliveries came during a check, which shows nothing", came)
				}
				if tried := len(w.Servers.Got()) - posts(w, inbox) - posts(w, bob); tried > 20*pages {
					t.Errorf("%d POSTs in ten hours to %d pages that take nothing", tried, pages)
				}
			})
		}
	}
}
