package ratelimit

import (
	"context"
	"sync"
	"time"
)

// Booker books slots under a limit.
type Booker interface {
	Book(ctx context.Context, host string, n int, horizon time.Duration) ([]time.Time, error)
}

// Stash returns slots one at a time and books several at once, so that a slot costs a tenth of
// a write. It is safe for concurrent use.
type Stash struct {
	Booker Booker
	Now    func() time.Time

	mu    sync.Mutex
	slots map[string][]time.Time // by host, earliest first
}

const (
	// atOnce is how many slots are booked at once. One that is not taken before its time is
	// lost.
	atOnce = 10
	// stashed bounds the hosts with slots in a stash.
	stashed = 1000
	// Horizon is how far ahead a slot may be.
	Horizon = 10 * time.Hour
)

// Slot returns a slot of a host, each once. ok is false if all slots up to Horizon are taken.
func (s *Stash) Slot(ctx context.Context, host string) (at time.Time, ok bool, err error) {
	if at, ok = s.take(host); ok {
		return at, true, nil
	}
	slots, err := s.Booker.Book(ctx, host, atOnce, Horizon)
	if err != nil || len(slots) == 0 {
		return time.Time{}, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slots == nil || len(s.slots) >= stashed {
		s.slots = make(map[string][]time.Time)
	}
	s.slots[host] = append(s.slots[host], slots[1:]...)
	return slots[0], true, nil
}

func (s *Stash) take(host string) (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.slots[host]
	for len(left) > 0 && left[0].Before(s.Now()) {
		left = left[1:]
	}
	if len(left) == 0 {
		delete(s.slots, host)
		return time.Time{}, false
	}
	s.slots[host] = left[1:]
	return left[0], true
}
