package deliver

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity"
)

// Callers choose how many activities end at about the same time: each that is looked at has a timer.
func TestLooksAtActivitiesThatMayBeDoneAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, finished := quiet{looks: map[activity.ID]*time.Timer{}}, 0
		for n := range 3 * mostQuiet {
			for range 2 {
				q.look(activity.ID(fmt.Sprint(n)), time.Second, func() { finished++ })
			}
		}
		if len(q.looks) != mostQuiet {
			t.Errorf("%d activities are to be looked at, at most %d", len(q.looks), mostQuiet)
		}
		time.Sleep(2 * time.Second) // virtual
		synctest.Wait()
		if len(q.looks) > 0 || finished != mostQuiet {
			t.Errorf("%d of %d activities were looked at, and %d are left", finished, mostQuiet, len(q.looks))
		}
	})
}
