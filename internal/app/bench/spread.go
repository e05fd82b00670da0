package bench

import (
	"slices"
	"sync"
	"time"
)

// Spread is a distribution of times, in seconds.
type Spread struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// spread collects times.
type spread struct {
	mu  sync.Mutex
	all []time.Duration
}

func newSpread(most int) *spread { return &spread{all: make([]time.Duration, 0, most)} }

func (s *spread) add(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, d)
}

// result is the distribution; the p-th percentile is the smallest time that at least p of
// a hundred do not exceed.
func (s *spread) result() Spread {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return Spread{}
	}
	slices.Sort(s.all)
	at := func(percent int) float64 { return s.all[(len(s.all)*percent+99)/100-1].Seconds() }
	return Spread{P50: at(50), P90: at(90), P99: at(99), Max: at(100)}
}
