package deliver_test

import (
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/testkit/world"
)

// TestWhatWasCancelledIsNotSentAfterItsRecordHasEnded: with RECORD_RETENTION=1d the record that
// said so ended while a delivery waited, for up to RETRY_GIVE_UP, and then it was sent.
func TestWhatWasCancelledIsNotSentAfterItsRecordHasEnded(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		ordered bool
		inboxes []string
		waits   func(*world.World) // for three days
	}{
		"parked":              {false, []string{"https://down.example/inbox"}, func(w *world.World) { w.Run(3*day, 5*time.Minute) }},
		"parked in its group": {true, []string{"https://down.example/inbox"}, func(w *world.World) { w.Run(3*day, 5*time.Minute) }},
		"a chunk on a queue":  {false, inboxes(3), func(w *world.World) { w.Clock.Advance(3 * day) }},
		"all on a queue":      {false, inboxes(200), func(w *world.World) { w.Clock.Advance(3 * day) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := world.New(t, world.Options{})
			w.Servers.Script("down.example", world.Down)
			send := func() activity.ID {
				a := w.Activity("Create")
				if c.ordered {
					a.OrderingKey = "k"
				}
				id := w.Send(a, c.inboxes...)
				if err := w.Raw().KeepActivity(t.Context(), id, world.Start.Add(day)); err != nil {
					t.Fatal(err)
				}
				return id
			}
			cancelled, other := send(), send()
			if c.inboxes[0] == "https://down.example/inbox" {
				w.Run(time.Hour, time.Minute)
			}
			if err := w.Raw().CancelActivity(t.Context(), cancelled); err != nil {
				t.Fatal(err)
			}
			c.waits(w)
			w.Servers.Script("down.example", nil)
			w.Run(day, 5*time.Minute)
			if n := len(w.Servers.Accepted()[cancelled]); n != 0 {
				t.Errorf("%d inboxes got what was cancelled three days before", n)
			}
			if n := len(w.Servers.Accepted()[other]); n != len(c.inboxes) {
				t.Errorf("%d of %d inboxes got what was not cancelled", n, len(c.inboxes))
			}
			w.Quiet()
		})
	}
}
