package cache

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/servers/circuit"
)

// answers gives the states of servers as of when it was asked, but the first
// answer comes last.
type answers struct {
	circuit.Store
	state  circuit.State
	asked  int
	second chan struct{} // closed when the second answer was given
}

func (a *answers) Servers(context.Context, ...string) (map[string]circuit.State, error) {
	state := a.state
	if a.asked++; a.asked == 1 {
		<-a.second
	}
	return map[string]circuit.State{state.Key: state}, nil
}

// An ordered delivery must know what was parked of its group before it was received, although the
// answer to an earlier read may come later.
func TestAFreshLookIsNotLostToALateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := activity.Target{Inbox: "https://a.example/inbox"}
		store := &answers{state: circuit.State{Key: circuit.HostKey(target.Host())}, second: make(chan struct{})}
		h := New(store, circuit.Rules{}.Complete(), time.Minute, time.Now, slog.New(slog.DiscardHandler))
		look := func() map[string]circuit.State {
			read, err := h.LoadFor(t.Context(), true, keysOf(target))
			if err != nil {
				t.Error(err)
			}
			return read
		}
		go look()
		synctest.Wait() // it has asked
		store.state.Parked = true
		read := look()
		close(store.second)
		synctest.Wait()
		if !read[store.state.Key].Parked {
			t.Error("the look did not tell what it saw")
		}
	})
}

// TestALateAnswerDoesNotUndoASave: an answer from before a save that comes after it would remove
// the saved failures from the count that opens a circuit.
func TestALateAnswerDoesNotUndoASave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := activity.Target{Inbox: "https://a.example/inbox"}
		store := &answers{state: circuit.State{Key: circuit.HostKey(target.Host())}, second: make(chan struct{})}
		h := New(store, circuit.Rules{}.Complete(), time.Minute, time.Now, slog.New(slog.DiscardHandler))
		go func() {
			if _, err := h.LoadFor(t.Context(), false, keysOf(target)); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait() // it has asked
		saved := store.state
		saved.Streak = 4
		h.Set(saved)
		close(store.second)
		synctest.Wait()
		if s := h.State(saved.Key); s.Streak != 4 {
			t.Errorf("the cache has %d failures of 4 that were saved", s.Streak)
		}
	})
}

func keysOf(t activity.Target) Keys { return KeysOf(t.Host(), circuit.InboxKey(t.Inbox)) }

// kept are states in memory, and the keys of each read.
type kept struct {
	circuit.Store
	states map[string]circuit.State
	reads  [][]string
}

func (k *kept) Servers(_ context.Context, keys ...string) (map[string]circuit.State, error) {
	k.reads = append(k.reads, keys)
	found := map[string]circuit.State{}
	for _, key := range keys {
		if s, ok := k.states[key]; ok {
			found[key] = s
		}
	}
	return found, nil
}

// TestABlockOfADomainRefusesItsSubdomains, and costs one more key in a read that is made anyway,
// and nothing for a host with no domain above it.
func TestABlockOfADomainRefusesItsSubdomains(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	k := &kept{states: map[string]circuit.State{
		circuit.FamilyKey("bad.example"): {Key: circuit.FamilyKey("bad.example"), Phase: circuit.Blocked, Why: "spam"},
		circuit.FamilyKey("was.example"): {Key: circuit.FamilyKey("was.example"), Phase: circuit.Healthy},
	}}
	h := New(k, circuit.Rules{}.Complete(), time.Minute, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	want := map[string]circuit.Decision{
		"https://a.bad.example/inbox":      circuit.Refuse,
		"https://a.b.bad.example/inbox":    circuit.Refuse,
		"https://a.bad.example:8443/inbox": circuit.Refuse,
		"https://bad.example:8443/inbox":   circuit.Refuse,
		"https://notbad.example/inbox":     circuit.Send,
		"https://bad.example.org/inbox":    circuit.Send,
		"https://a.was.example/inbox":      circuit.Send,
		"https://good.example/inbox":       circuit.Send,
	}
	var ts []activity.Target
	var keys []Keys
	for inbox := range want {
		ts = append(ts, activity.Target{Inbox: inbox})
		keys = append(keys, keysOf(ts[len(ts)-1]))
	}
	for range 2 {
		if _, err := h.LoadFor(t.Context(), false, keys...); err != nil {
			t.Fatal(err)
		}
	}
	for _, target := range ts {
		if s, d := h.Decision(keysOf(target), now); d != want[target.Inbox] || d == circuit.Refuse && s.Why != "spam" {
			t.Errorf("%s: %v by %+v", target.Inbox, d, s)
		}
	}
	// Eight hosts, and the domains b.bad, bad, a.bad (of the one with a port), was
	// and example.org.
	if len(k.reads) != 1 || len(k.reads[0]) != 13 {
		t.Errorf("%d reads, the first of %d keys: %v", len(k.reads), len(k.reads[0]), k.reads)
	}
}
