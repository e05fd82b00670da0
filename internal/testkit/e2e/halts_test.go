package e2e

import (
	"context"
	"sync"
	"testing"
	"time"
)

// halts are the times in which a busy machine did not run this process. A test that measures time
// subtracts them, so that it judges fedpost and not the machine.
type halts struct {
	mu  sync.Mutex
	all []halt
}

// halt is the time between when a goroutine should have run and when it ran.
type halt struct{ due, ran time.Time }

// watchHalts records halts until the test's end.
func watchHalts(t *testing.T) *halts {
	const every = 20 * time.Millisecond
	h := &halts{}
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for due := time.Now().Add(every); ; due = time.Now().Add(every) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(every):
			}
			h.note(halt{due, time.Now()})
		}
	})
	t.Cleanup(func() {
		stop()
		done.Wait()
	})
	return h
}

func (h *halts) note(one halt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, one)
}

// between is how much of the time from one moment to another was a halt.
func (h *halts) between(from, to time.Time) (sum time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, one := range h.all {
		begin, end := one.due, one.ran
		if begin.Before(from) {
			begin = from
		}
		if end.After(to) {
			end = to
		}
		sum += max(0, end.Sub(begin))
	}
	return sum
}

func TestHaltsAreAddedUpAsFarAsTheyLieBetweenTwoMoments(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	h := &halts{}
	h.note(halt{at(1), at(3)})
	h.note(halt{at(4), at(4.5)})
	for _, c := range []struct{ from, to, want float64 }{
		{0, 10, 2.5}, {2, 10, 1.5}, {2, 2.5, 0.5}, {3, 4, 0}, {0, 1, 0}, {4.25, 4.25, 0}, {5, 4, 0},
	} {
		if got := h.between(at(c.from), at(c.to)); got != time.Duration(c.want*float64(time.Second)) {
			t.Errorf("from %v to %v: %s, want %v s", c.from, c.to, got, c.want)
		}
	}
}
