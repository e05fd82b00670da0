package deadletter_test

import (
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/deliver/bodies"
	"fedpost/internal/deliver/deadletter"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/testkit/world"
)

// TestALargeBodyOfADeadLetterIsStoredOnce: it was in the table's dead letter and in the
// message of the dead-letter queue, 360 KB in all for one of 256 KiB. Both still revive it.
func TestALargeBodyOfADeadLetterIsStoredOnce(t *testing.T) {
	for name, revive := range map[string]func(*testing.T, *afterlife, activity.ID, queue.Received){
		"on request": func(t *testing.T, w *afterlife, id activity.ID, _ queue.Received) {
			if n, _, err := w.reviver.Revive(t.Context(), deadletter.Filter{Activity: id}, "", 10); n != 1 || err != nil {
				t.Fatalf("revived %d, %v", n, err)
			}
		},
		"by the queue": func(t *testing.T, w *afterlife, _ activity.ID, m queue.Received) {
			if err := w.Engine.Queue(queue.Normal).Send(t.Context(), queue.Message{Body: m.Body}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newAfterlife(t, world.Options{})
			mend := w.sicken()
			a := w.Activity("Create")
			a.Body = `{"content":"` + strings.Repeat("a large body ", bodies.Large/10) + `"}`
			id := w.Send(a, sickInbox)
			w.pass(10 * time.Minute)
			ms := w.notices(queue.Dead)
			if len(ms) != 1 || len(ms[0].Body) > 1000 {
				t.Fatalf("%d messages, the first of %d bytes", len(ms), len(ms[0].Body))
			}
			copies := 0
			for _, pk := range []string{"A#" + string(id), "D#" + w.Now().Format(time.DateOnly) + "#"} {
				for _, shard := range []string{"", "0", "1", "2", "3"} {
					items, _, err := w.Engine.Table().Query(t.Context(), table.Range{PK: pk + shard})
					if err != nil {
						t.Fatal(err)
					}
					for _, it := range items {
						if strings.HasPrefix(it.SK, "BODY#") {
							copies++
						}
					}
				}
			}
			if copies != 1 {
				t.Errorf("the body is stored %d times", copies)
			}
			mend()
			w.Clock.Advance(24 * time.Hour)
			revive(t, w, id, ms[0])
			w.pass(10 * time.Minute)
			w.Expect(id, map[string]activity.State{sickInbox: activity.Delivered})
			for _, r := range w.Servers.Got() {
				if r.Activity.Body != a.Body {
					t.Errorf("a request of %d bytes, not %d", len(r.Activity.Body), len(a.Body))
				}
			}
		})
	}
}
