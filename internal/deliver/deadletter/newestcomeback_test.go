package deadletter_test

import (
	"fmt"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/testkit/world"
)

// TestTheNewestComesLastAfterARevival: of two activities about a post with "coalesce": "latest", both
// dead when their server comes back, the older one is not accepted after the newer one.
func TestTheNewestComesLastAfterARevival(t *testing.T) {
	for _, types := range [][2]string{{"Update", "Update"}, {"Create", "Delete"}} {
		t.Run(types[0]+" and "+types[1], func(t *testing.T) {
			w := newComeback(t, world.Options{}, for60(20*oneDay))
			const posts = 20
			var sent [2][posts]activity.ID
			for version, typ := range types {
				for n := range posts {
					a := w.Activity(typ)
					a.Coalesce = activity.CoalesceLatest
					a.Body = fmt.Sprintf(`{"type":%q,"object":{"id":"https://our.example/posts/%d","type":"Note","content":"version %d"}}`, typ, n, version)
					sent[version][n] = w.Send(a, downInbox)
				}
				w.Run(2*oneDay, 10*time.Minute)
			}
			w.Run(21*oneDay, time.Minute)
			place := map[activity.ID]int{}
			for i, id := range w.order {
				place[id] = i + 1
			}
			for n := range posts {
				older, newer := place[sent[0][n]], place[sent[1][n]]
				if newer == 0 || older > newer {
					t.Errorf("post %d: the newer activity is the %d. to be accepted, the older one the %d.", n, newer, older)
				}
			}
		})
	}
}
