package cache

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/servers/circuit"
)

// shared is a store of one state, with compare-and-swap, that counts the writes
// tried.
type shared struct {
	mu     sync.Mutex
	state  circuit.State
	n      int
	writes atomic.Int64
}

func (s *shared) Servers(_ context.Context, keys ...string) (map[string]circuit.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Key == "" {
		return nil, nil
	}
	return map[string]circuit.State{s.state.Key: s.state}, nil
}

func (s *shared) SaveServer(_ context.Context, st circuit.State) (circuit.State, error) {
	s.writes.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Version != st.Version {
		return st, circuit.ErrChanged
	}
	s.n++
	st.Version = fmt.Sprint(s.n)
	s.state = st
	return st, nil
}

func (s *shared) ListServers(context.Context, string, int) ([]circuit.State, string, error) {
	return nil, "", nil
}

func (s *shared) DueServers(context.Context, int, time.Time, int) ([]circuit.State, error) {
	return nil, nil
}

// TestAStormOfAnswersCostsOneWriteASecond has 40 processes learn from many answers
// of one host: 429s, and failures that come with successes.
func TestAStormOfAnswersCostsOneWriteASecond(t *testing.T) {
	const processes, seconds, answers = 40, 5, 50
	for name, answer := range map[string]func(h *Hosts, now time.Time, n int){
		"429": func(h *Hosts, now time.Time, n int) {
			h.Learn(circuit.HostKey(anyHost), Lesson{Kind: "throttled", Apply: func(s circuit.State) circuit.State {
				return s.Throttle(h.rules, now.Add(time.Minute+time.Duration(n)*time.Millisecond), "429", now)
			}})
		},
		"failures and successes": func(h *Hosts, _ time.Time, n int) {
			o := outcome.Outcome{Class: outcome.Delivered, Status: 202}
			if n%3 == 0 {
				o = outcome.Outcome{Class: outcome.Retry, Status: 500}
			}
			h.Observe(anyHost, fmt.Sprintf("https://%s/%d", anyHost, n%7), o)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &shared{}
			var mu sync.Mutex
			clock := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			now := func() time.Time {
				mu.Lock()
				defer mu.Unlock()
				return clock
			}
			hs := make([]*Hosts, processes)
			for i := range hs {
				hs[i] = New(s, circuit.Default(), time.Minute, now, slog.New(slog.DiscardHandler))
			}
			for range seconds {
				var wg sync.WaitGroup
				for _, h := range hs {
					wg.Go(func() {
						for n := range answers {
							answer(h, now(), n)
							if n%10 == 0 {
								if err := h.Flush(t.Context()); err != nil {
									t.Error(err)
								}
							}
						}
					})
				}
				wg.Wait()
				mu.Lock()
				clock = clock.Add(time.Second)
				mu.Unlock()
			}
			s.mu.Lock()
			saved := s.n
			s.mu.Unlock()
			t.Logf("%d writes tried, %d made, for %d answers to %d processes in %d s", s.writes.Load(), saved, processes*answers*seconds, processes, seconds)
			if saved > processes*seconds {
				t.Errorf("%d writes for %d processes in %d s", saved, processes, seconds)
			}
		})
	}
}
