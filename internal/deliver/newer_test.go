package deliver_test

import (
	"strings"
	"testing"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/message"
	"fedpost/internal/message/claimcheck"
	"fedpost/internal/testkit/world"
)

// TestWhatANewerFedpostSentIsRedrivenAfterTheUpgrade: a worker that meets a message of a newer
// version ends no recipient, and moves the message to the dead letters as it is, also one that
// is stored behind a claim check. The newer version delivers what is redriven, once.
func TestWhatANewerFedpostSentIsRedrivenAfterTheUpgrade(t *testing.T) {
	const newer = `"v":99`
	for name, ordered := range map[string]bool{"normal": false, "ordered": true} {
		for place, stored := range map[string]bool{"in the message": false, "behind a claim check": true} {
			t.Run(name+" "+place, func(t *testing.T) {
				onBothTypes(t, func(t *testing.T, typ queue.Type) {
					w := world.New(t, world.Options{QueueType: typ})
					a, to := w.Activity("Create"), inboxes(60)
					if ordered {
						a.OrderingKey = "in order"
					}
					w.Send(a, to...)
					from := message.QueueOf(a)
					q, dead := w.Engine.Queue(from), w.Engine.Queue(from.DeadLetter())
					move := func(from, to queue.Queue, change func(string) string) {
						t.Helper()
						got, err := from.Receive(t.Context(), queue.ReceiveOptions{Max: 10})
						if err != nil || len(got) != 1 {
							t.Fatalf("%d messages, %v", len(got), err)
						}
						if reason, kept := got[0].Attributes["reason"]; kept != (from == dead) || kept && reason != "newer" {
							t.Errorf("moved for the reason %q", reason)
						}
						m := queue.Message{Body: change(got[0].Body), Attributes: got[0].Attributes}
						if to.Capabilities().NativeDeduplication {
							m.OrderingKey, m.DeduplicationKey = got[0].OrderingKey, "moved "+got[0].ID
						}
						if err := to.Send(t.Context(), m); err != nil {
							t.Fatal(err)
						}
						if err := from.Delete(t.Context(), got[0].Handle); err != nil {
							t.Fatal(err)
						}
					}
					var old, sent string
					move(q, q, func(body string) string {
						old = body
						if sent = strings.Replace(body, `"v":1`, newer, 1); !stored {
							return sent
						}
						parts, err := claimcheck.Put(t.Context(), w.Store, string(a.ID), sent, w.Now().Add(30*day))
						if err != nil {
							t.Fatal(err)
						}
						sent = world.Encode(t, message.Message{Ref: &message.Ref{ID: string(a.ID), Parts: parts}})
						return sent
					})
					w.Work()
					if n := len(w.Servers.Got()); n != 0 {
						t.Errorf("%d requests for a message that nobody can read", n)
					}
					if v := look(t, w, a.ID); v.Counts[activity.Queued] != len(to) {
						t.Errorf("the activity is %s with %v, want %d queued", v.Status, v.Counts, len(to))
					}

					// The redrive. That the worker of now reads the message stands for the upgrade.
					move(dead, q, func(body string) string {
						if body != sent {
							t.Errorf("%q is redriven, %q was sent", body, sent)
						}
						if !stored {
							return old
						}
						if _, err := claimcheck.Put(t.Context(), w.Store, string(a.ID), old, w.Now().Add(30*day)); err != nil {
							t.Fatal(err)
						}
						return body
					})
					w.Work()
					states, accepted := w.States(a.ID), w.Servers.Accepted()[a.ID]
					for _, inbox := range to {
						if states[inbox].State != activity.Delivered || accepted[inbox] != 1 {
							t.Errorf("%s is %s, and got it %d times", inbox, states[inbox].State, accepted[inbox])
						}
					}
					if v := look(t, w, a.ID); v.Counts[activity.Delivered] != len(to) {
						t.Errorf("the activity is %s with %v, want %d delivered", v.Status, v.Counts, len(to))
					}
				})
			})
		}
	}
}
