package deliver_test

import (
	"fmt"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/engine/queue"
	"fedpost/internal/testkit/world"
)

func inboxes(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("https://h%d.example/inbox", i)
	}
	return all
}

func TestEachOutcomeLeadsToItsState(t *testing.T) {
	for _, c := range []struct {
		name   string
		script world.Script
		want   activity.State
		tries  int
	}{
		{"accepts", nil, activity.Delivered, 1},
		{"202", world.Answers(202), activity.Delivered, 1},
		{"404", world.Answers(404), activity.Failed, 1},
		{"410", world.Answers(410), activity.Failed, 1},
		{"400", world.Answers(400), activity.Failed, 3},
		{"403", world.Answers(403), activity.Failed, 1},
		{"501", world.Answers(501), activity.Failed, 1},
		{"401", world.Answers(401), activity.Parked, 5},
		{"408 then accepts", world.Then(1, world.Answers(408), nil), activity.Delivered, 2},
		{"500 twice then accepts", world.Then(2, world.Answers(500), nil), activity.Delivered, 3},
		{"500 four times then accepts", world.Then(4, world.Answers(500), nil), activity.Delivered, 5},
		{"refuses connections", world.Down, activity.Parked, 5},
		{"no key", func(world.Request, int) outcome.Outcome {
			return outcome.Outcome{Class: outcome.Refused, Try: outcome.Untried, Err: "no such key"}
		}, activity.Failed, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := world.New(t, world.Options{})
			w.Servers.Script("sick.example", c.script)
			id := w.Send(w.Activity("Create"), "https://sick.example/inbox", "https://fine.example/inbox")
			w.Run(2*time.Minute, time.Second)
			w.Expect(id, map[string]activity.State{
				"https://sick.example/inbox": c.want, "https://fine.example/inbox": activity.Delivered,
			})
			if got := w.States(id)["https://sick.example/inbox"].Attempts; got != c.tries {
				t.Errorf("%d attempts, want %d", got, c.tries)
			}
			if n := w.Servers.Accepted()[id]["https://fine.example/inbox"]; n != 1 {
				t.Errorf("its neighbour got it %d times", n)
			}
		})
	}
}

func TestAThousandRecipientsAreExpandedAndDeliveredOnce(t *testing.T) {
	w := world.New(t, world.Options{})
	to := inboxes(1033)
	id := w.Send(w.Activity("Create"), to...)
	w.Work()
	states, accepted := w.States(id), w.Servers.Accepted()[id]
	for _, in := range to {
		if states[in].State != activity.Delivered || accepted[in] != 1 {
			t.Fatalf("%s is %q and got it %d times", in, states[in].State, accepted[in])
		}
	}
}

func TestMalformedMessagesGoToTheDeadLettersWithTheReason(t *testing.T) {
	onBothTypes(t, func(t *testing.T, typ queue.Type) {
		for _, name := range []queue.Name{queue.Normal, queue.Ordered} {
			for _, body := range []string{"", "nonsense", `{"v":99}`, `{"v":1}`, `{"v":1,"deliver":{"chunk":0,"pos":-1,"targets":["https://a.example/"]}}`} {
				reason := "malformed"
				if body == `{"v":99}` {
					reason = "newer"
				}
				w := world.New(t, world.Options{QueueType: typ})
				m := queue.Message{Body: body}
				if w.Engine.Queue(name).Capabilities().NativeDeduplication {
					m.OrderingKey, m.DeduplicationKey = "g", "d"
				}
				if err := w.Engine.Queue(name).Send(t.Context(), m); err != nil {
					t.Logf("%q cannot be sent: %v", body, err)
					continue
				}
				w.Work()
				got, err := w.Engine.Queue(name.DeadLetter()).Receive(t.Context(), queue.ReceiveOptions{Max: 10})
				if err != nil || len(got) != 1 {
					t.Fatalf("%q on %s: %d dead letters, %v", body, name, len(got), err)
				}
				if a := got[0].Attributes; a["reason"] != reason || a["error"] == "" || a["source"] != string(name) || got[0].Body != body {
					t.Errorf("%q on %s: attributes %v, body %q", body, name, a, got[0].Body)
				}
			}
		}
	})
}
