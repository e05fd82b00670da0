package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/property"
)

// table keeps states in memory. Other processes change them, and a save may fail.
type table struct {
	circuit.Store
	mu     sync.Mutex
	states map[string]circuit.State
	broken bool
}

func (m *table) Servers(_ context.Context, keys ...string) (map[string]circuit.State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := map[string]circuit.State{}
	for _, key := range keys {
		if s, ok := m.states[key]; ok {
			found[key] = s
		}
	}
	return found, nil
}

func (m *table) SaveServer(_ context.Context, s circuit.State) (circuit.State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken {
		return s, errors.New("the table is down")
	}
	m.states[s.Key] = s
	return s, nil
}

// TestAFlushLooksAtAllThatIsWorthSaving, although it does not look at all hosts: whatever was
// observed, learnt, saved, read and changed by others, it saves the same hosts as a look at all of
// them would, and hosts that only accept deliveries are soon left out.
func TestAFlushLooksAtAllThatIsWorthSaving(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		stored := &table{states: map[string]circuit.State{}}
		h := New(stored, circuit.Default(), time.Second, func() time.Time { return now }, slog.New(slog.DiscardHandler))
		host := rapid.SampledFrom([]string{"a.example", "b.example", "c.example"})
		step := map[string]func(*rapid.T){
			"succeed": func(t *rapid.T) {
				h.Observe(host.Draw(t, "host"), "https://any.example/inbox", outcome.Outcome{Class: outcome.Delivered, Status: 202})
			},
			"fail": func(t *rapid.T) {
				h.Observe(host.Draw(t, "host"), "https://any.example/inbox", outcome.Outcome{Class: outcome.Retry, Status: 500})
			},
			"pause": func(t *rapid.T) {
				h.Learn(circuit.HostKey(host.Draw(t, "host")), Lesson{Kind: "throttled", Apply: func(s circuit.State) circuit.State {
					return s.Throttle(circuit.Default(), now.Add(time.Minute), "429", now)
				}})
			},
			"other": func(t *rapid.T) {
				h.settled()
				key := circuit.HostKey(host.Draw(t, "host"))
				s := circuit.Of(stored.states, key)
				s.Streak = rapid.IntRange(0, 3).Draw(t, "streak")
				stored.states[key] = s
			},
			"look": func(t *rapid.T) {
				if _, err := h.LoadFor(context.Background(), true, KeysOf(host.Draw(t, "host"))); err != nil {
					t.Fatal(err)
				}
			},
			"time": func(t *rapid.T) {
				h.settled()
				now = now.Add(time.Duration(rapid.IntRange(1, 400).Draw(t, "seconds")) * time.Second)
			},
			"break": func(*rapid.T) {
				h.settled()
				stored.broken = !stored.broken
			},
			"flush": func(t *rapid.T) {
				if err := h.Flush(context.Background()); err != nil {
					t.Fatal(err)
				}
			},
			"": func(t *rapid.T) {
				h.settled()
				h.mu.Lock()
				defer h.mu.Unlock()
				for key, k := range h.known {
					if k.pending == nil && (k.saved != nil || h.worthSaving(k)) {
						t.Fatalf("%s is worth saving and not pending: stored %+v, learnt %+v", key, k.stored, k.unsaved)
					}
				}
			},
		}
		t.Repeat(step)
	})
}

// settled waits until no save is under way.
func (h *Hosts) settled() {
	for {
		h.mu.Lock()
		var saved chan struct{}
		for _, k := range h.known {
			if k.saved != nil {
				saved = k.saved
			}
		}
		h.mu.Unlock()
		if saved == nil {
			return
		}
		<-saved
	}
}

// TestHostsThatOnlyAcceptAreNotPending: a Flush follows each batch, and would cost more with
// each host that was ever sent to.
func TestHostsThatOnlyAcceptAreNotPending(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	h := New(nil, circuit.Default(), time.Minute, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	for n := range 1000 {
		h.Observe(fmt.Sprintf("h%d.example", n), "https://any.example/inbox", outcome.Outcome{Class: outcome.Delivered, Status: 202})
	}
	if len(h.known) != 1000 || h.pending.Len() != 0 {
		t.Errorf("of %d hosts that accept, a flush looks at %d", len(h.known), h.pending.Len())
	}
}
