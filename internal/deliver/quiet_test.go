package deliver

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity"
)

// Callers choose how many activities end at about the same time: each that is looked at has a timer.
func TestLooksAtActivitiesThatMayBeDoneAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := quiet{looks: map[activity.ID]*time.Timer{}}
		var finished atomic.Int64
		left := func() int {
			q.mu.Lock()
			defer q.mu.Unlock()
			return len(q.looks)
		}
		for n := range 3 * mostQuiet {
			for range 2 {
				q.look(activity.ID(fmt.Sprint(n)), time.Second, func() { finished.Add(1) })
			}
		}
		if n := left(); n != mostQuiet {
			t.Errorf("%d activities are to be looked at, at most %d", n, mostQuiet)
		}
		time.Sleep(2 * time.Second) // virtual
		synctest.Wait()
		if finished.Load() != mostQuiet || left() > 0 {
			t.Errorf("%d of %d activities were looked at, and %d are left", finished.Load(), mostQuiet, left())
		}
	})
}
