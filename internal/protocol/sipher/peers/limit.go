package peers

import (
	"sync"
	"time"
)

// RateLimit allows each key a number of requests at once and a rate per minute. Its state is in
// memory: on Lambda each instance has its own.
type RateLimit struct {
	interval  time.Duration
	tolerance time.Duration
	now       func() time.Time

	mu sync.Mutex
	// free is GCRA's theoretical arrival time by key: when the next request would be due if
	// requests came evenly spaced. Past ones are dropped.
	free    map[string]time.Time
	cleaned time.Time
}

// maxCallers bounds the memory. While so many keys are known, a new one waits for an interval.
const maxCallers = 10_000

// NewRateLimit returns a limit of rate requests a minute with that burst.
func NewRateLimit(rate, burst int, now func() time.Time) *RateLimit {
	interval := time.Minute / time.Duration(max(rate, 1))
	return &RateLimit{
		interval: interval, tolerance: interval * time.Duration(max(burst, 1)-1),
		now: now, free: map[string]time.Time{},
	}
}

// Allow returns how long a caller has to wait before its next request; 0: the request is allowed.
func (l *RateLimit) Allow(caller string) time.Duration {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clean(now)
	due, known := l.free[caller]
	if !known && len(l.free) >= maxCallers {
		return l.interval
	}
	if due.Before(now) {
		due = now
	}
	if wait := due.Sub(now) - l.tolerance; wait > 0 {
		return wait
	}
	l.free[caller] = due.Add(l.interval)
	return 0
}

func (l *RateLimit) clean(now time.Time) {
	if now.Sub(l.cleaned) < l.interval {
		return
	}
	l.cleaned = now
	for c, due := range l.free {
		if !due.After(now) {
			delete(l.free, c)
		}
	}
}
