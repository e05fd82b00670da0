package enqueue_test

import (
	"testing"
	"time"

	"fedpost/internal/enqueue"
	"fedpost/internal/message/agenda"
	"fedpost/internal/testkit/faults"
)

// TestNoSettingForgetsWorkThatIsNotDone: with the shortest record retention,
// delayed activities and the payloads of claim checks are still kept while the
// schedule stands still for weeks.
func TestNoSettingForgetsWorkThatIsNotDone(t *testing.T) {
	crowd := func(r *enqueue.Request) { r.Recipients = inboxes(100, 0) }
	for name, r := range map[string]enqueue.Request{
		"a task": request(delay(time.Hour)), "a task by reference": request(delay(time.Hour), crowd), "a payload": request(crowd),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, faults.NewPlan(), func(s *settings) { s.enqueue.Retention, s.maxMessage = 24*time.Hour, 4<<10 })
			w.must(r, enqueue.Queued)
			if r.Delay > 0 {
				w.wait(time.Hour + agenda.Slack)
			} else {
				w.wait(13 * 24 * time.Hour) // a queue keeps messages for 14 days
			}
			for shard := range agenda.Shards {
				tasks, err := w.truth.DueTasks(t.Context(), shard, w.clock, 10)
				if err != nil {
					t.Fatal(err)
				}
				for _, task := range tasks {
					if !task.Forget.After(w.clock) {
						t.Errorf("a task that is not released may be dropped since %s", task.Forget)
					}
				}
			}
			w.releaseAll()
			w.one()
		})
	}
}
