package cache

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/servers/circuit"
)

// blocking is a store whose operator blocks a server.
type blocking struct {
	circuit.Store
	state circuit.State
}

func (b *blocking) Servers(context.Context, ...string) (map[string]circuit.State, error) {
	return map[string]circuit.State{b.state.Key: b.state}, nil
}

// TestABlockIsSeenWithinSecondsThoughTheClockWasSetBack: a state that was read an hour ahead
// is not young for an hour.
func TestABlockIsSeenWithinSecondsThoughTheClockWasSetBack(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	target := activity.Target{Inbox: "https://a.example/inbox"}
	store := &blocking{state: circuit.State{Key: circuit.HostKey(target.Host()), Phase: circuit.Healthy}}
	rules := circuit.Rules{}.Complete()
	h := New(store, rules, TTL, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	decide := func() circuit.Decision {
		if _, err := h.LoadFor(t.Context(), false, keysOf(target)); err != nil {
			t.Fatal(err)
		}
		_, d := h.Decision(keysOf(target), now)
		return d
	}
	if d := decide(); d != circuit.Send {
		t.Fatalf("before: %v", d)
	}
	now = now.Add(-time.Hour)
	store.state = store.state.Block(rules, "spam", now)
	now = now.Add(TTL)
	if d := decide(); d != circuit.Refuse {
		t.Errorf("%s after the block: %v", TTL, d)
	}
}
