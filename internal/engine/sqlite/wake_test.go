package sqlite

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/engine/queue"
)

// TestAMessageThatBecomesVisibleBetweenTwoLooksIsNotSleptThrough moves the clock
// on at each reading. So a message is still hidden when the receiver looks for
// messages, and visible when the receiver computes how long to sleep.
func TestAMessageThatBecomesVisibleBetweenTwoLooksIsNotSleptThrough(t *testing.T) {
	for _, name := range []queue.Name{queue.Normal, queue.Ordered} {
		for hidden := 5 * time.Millisecond; hidden < 100*time.Millisecond; hidden += 10 * time.Millisecond {
			ticking(t, name, hidden)
		}
	}
}

func ticking(t *testing.T, name queue.Name, hidden time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		var moving atomic.Bool
		var ticks atomic.Int64
		start := time.Now()
		q := openAt(t, Memory, Options{Now: func() time.Time {
			if moving.Load() {
				ticks.Add(1)
			}
			return start.Add(time.Duration(ticks.Load()) * 10 * time.Millisecond)
		}}).Queue(name)
		m := queue.Message{Body: "x"}
		if name.FIFO() {
			m = ordered("g", "k", "x")
		}
		mustSend(t, q, m)
		receive(t, q, queue.ReceiveOptions{Visibility: hidden})
		moving.Store(true)
		begun := time.Now()
		if got := receive(t, q, queue.ReceiveOptions{Wait: 20 * time.Second}); bodies(got) != "x" || time.Since(begun) > time.Second {
			t.Errorf("%s, hidden for %s: received %q after %s", name, hidden, bodies(got), time.Since(begun))
		}
	})
}
