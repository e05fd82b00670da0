package engines

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"fedpost/internal/engine/queue"
)

// TestAGroupThatSendsMuchHoldsUpNoOther, nor a message without a group.
func TestAGroupThatSendsMuchHoldsUpNoOther(t *testing.T) {
	for _, e := range []Engine{Maps(), Embedded(), Postgres()} {
		for typ, want := range map[queue.Type]bool{queue.Fair: true, queue.Standard: false} {
			t.Run(e.Name+"/"+string(typ), func(t *testing.T) {
				now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
				q := e.Open(t, Options{Now: func() time.Time { return now }, Type: typ}).Queue(queue.Normal)
				send := func(ms ...queue.Message) {
					t.Helper()
					for _, err := range q.SendBatch(t.Context(), ms) {
						if err != nil {
							t.Fatal(err)
						}
					}
				}
				var much []queue.Message
				for n := range 100 {
					much = append(much, queue.Message{Body: fmt.Sprint("much ", n), OrderingKey: "much"})
				}
				send(much...)
				now = now.Add(time.Second)
				send(queue.Message{Body: "little", OrderingKey: "little"}, queue.Message{Body: "alone"})
				var bodies []string
				got, err := q.Receive(t.Context(), queue.ReceiveOptions{Max: 5})
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range got {
					bodies = append(bodies, m.Body)
				}
				for _, body := range []string{"little", "alone"} {
					if slices.Contains(bodies, body) != want {
						t.Errorf("the first five are %q; with %q among them: %t, want %t", bodies, body, !want, want)
					}
				}
				if bodies[0] != "much 0" {
					t.Errorf("the first is %q, want much 0", bodies[0])
				}
			})
		}
	}
}

// TestARetryIsDatedBackWhenItIsDue, as does a message with a delay: it would stand behind
// all that others send in the ten minutes after that, on a queue that gets more than is received.
func TestARetryIsDatedBackWhenItIsDue(t *testing.T) {
	for _, e := range []Engine{Maps(), Embedded(), Postgres()} {
		t.Run(e.Name, func(t *testing.T) {
			start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			now := start
			q := e.Open(t, Options{Now: func() time.Time { return now }, Type: queue.Fair}).Queue(queue.Normal)
			send := func(ms ...queue.Message) {
				t.Helper()
				for _, err := range q.SendBatch(t.Context(), ms) {
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			send(queue.Message{Body: "retry", OrderingKey: "r"})
			got, err := q.Receive(t.Context(), queue.ReceiveOptions{Max: 1})
			if err != nil || len(got) != 1 {
				t.Fatal(len(got), err)
			}
			const due = 30 * time.Second
			if err := q.ChangeVisibility(t.Context(), got[0].Handle, due); err != nil {
				t.Fatal(err)
			}
			send(queue.Message{Body: "delayed", OrderingKey: "d", Delay: due})
			at := map[string]time.Duration{}
			for s := range 90 {
				var fresh []queue.Message
				for n := range 20 {
					fresh = append(fresh, queue.Message{Body: "fresh", OrderingKey: fmt.Sprint(s, "/", n)})
				}
				send(fresh...)
				got, err := q.Receive(t.Context(), queue.ReceiveOptions{Max: 10})
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range got {
					if _, known := at[m.Body]; !known {
						at[m.Body] = now.Sub(start)
					}
					if err := q.Delete(t.Context(), m.Handle); err != nil {
						t.Fatal(err)
					}
				}
				now = now.Add(time.Second)
			}
			for _, body := range []string{"retry", "delayed"} {
				if took, ok := at[body]; !ok || took < due || took > 70*time.Second {
					t.Errorf("%s was due after %s and was received after %s (ever: %t), want 70 s at most: as what was sent when it became due", body, due, took, ok)
				}
			}
		})
	}
}
