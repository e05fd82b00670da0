package deliver

import (
	"sync"
	"time"

	"fedpost/internal/activity"
)

// quiet has the large activities with recipients that finished lately. A check reads all
// chunks, so it waits until no recipient has finished for a while.
type quiet struct {
	mu    sync.Mutex
	looks map[activity.ID]*time.Timer
}

// mostQuiet bounds the checks that wait. The schedule checks the other activities.
const mostQuiet = 1000

// look calls finish when look was not called for the activity for the time after.
func (q *quiet) look(id activity.ID, after time.Duration, finish func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t, ok := q.looks[id]; ok && t.Stop() {
		t.Reset(after)
		return
	}
	if len(q.looks) >= mostQuiet {
		return
	}
	q.looks[id] = time.AfterFunc(after, func() {
		q.mu.Lock()
		delete(q.looks, id)
		q.mu.Unlock()
		finish()
	})
}
