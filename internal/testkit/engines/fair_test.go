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
