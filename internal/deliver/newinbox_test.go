package deliver_test

import (
	"fmt"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/world"
)

// TestANewInboxWaitsForNoDailyCheckAfterAnOutageOfDays: from the fifth day on, a delivery to a new
// inbox of a host whose only known inbox had failed waited up to a day, as early checks were counted
// for the whole outage. An exhausted host had none at all.
func TestANewInboxWaitsForNoDailyCheckAfterAnOutageOfDays(t *testing.T) {
	for _, days := range []int{1, 5, 6, 8} {
		t.Run(fmt.Sprint(days), func(t *testing.T) {
			const broken, fresh = "https://lone.example/u/broken", "https://lone.example/u/fresh"
			w := world.New(t, world.Options{})
			w.Servers.Script(broken, world.Answers(500))
			for range days {
				w.Send(w.Activity("Create"), broken)
				w.Run(24*time.Hour, time.Minute)
			}
			w.Send(w.Activity("Create"), broken)
			w.Run(time.Hour, time.Minute)
			id := w.Send(w.Activity("Create"), fresh)
			w.Run(15*time.Minute, 15*time.Second)
			w.Expect(id, map[string]activity.State{fresh: activity.Delivered})
		})
	}
}

// TestAnInboxOfAnExhaustedServerThatWorksWaitsForNoCheck: the circuit was open for a week because of
// one inbox. Deliveries to the inbox that took all of its own waited for the daily check from then on.
func TestAnInboxOfAnExhaustedServerThatWorksWaitsForNoCheck(t *testing.T) {
	const inbox, page = "https://victim.example/inbox", "https://victim.example/page"
	w := world.New(t, world.Options{})
	w.Send(w.Activity("Create"), inbox)
	w.Run(time.Hour, time.Minute)
	w.Servers.Script(page, world.Answers(500))
	exhausted := false
	for hour := range 14 * 24 {
		if hour%24 == 0 {
			a := w.Activity("Create")
			a.OrderingKey = fmt.Sprint("stranger ", hour)
			w.Send(a, page)
		}
		id := w.Send(w.Activity("Create"), inbox)
		w.Run(time.Hour, time.Minute)
		w.Expect(id, map[string]activity.State{inbox: activity.Delivered})
		s, err := circuit.Load(t.Context(), w.Store, circuit.HostKey("victim.example"))
		if err != nil {
			t.Fatal(err)
		}
		exhausted = exhausted || s.Phase == circuit.Exhausted
	}
	if !exhausted {
		t.Error("this test shows nothing: the server was never exhausted")
	}
}
