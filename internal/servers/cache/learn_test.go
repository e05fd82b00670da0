package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/servers/circuit"
)

// shelf stores states as the table does; each save takes a second.
type shelf struct {
	circuit.Store
	mu     sync.Mutex
	states map[string]circuit.State
	saves  int
	broken bool
}

func (s *shelf) Servers(_ context.Context, keys ...string) (map[string]circuit.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[string]circuit.State{}
	for _, k := range keys {
		if st, ok := s.states[k]; ok {
			found[k] = st
		}
	}
	return found, nil
}

func (s *shelf) SaveServer(_ context.Context, st circuit.State) (circuit.State, error) {
	time.Sleep(time.Second) // virtual
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saves++
	if s.broken {
		return st, errors.New("the table is down")
	}
	if s.states[st.Key].Version != st.Version {
		return st, circuit.ErrChanged
	}
	st.Version = fmt.Sprint("v", s.saves)
	s.states[st.Key] = st
	return st, nil
}

func learnt(t *testing.T, f func(t *testing.T, h *Hosts, s *shelf)) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{states: map[string]circuit.State{}}
		f(t, New(s, circuit.Default(), time.Minute, time.Now, slog.New(slog.DiscardHandler)), s)
		synctest.Wait()
	})
}

const anyHost = "a.example"

var (
	target = activity.Target{Inbox: "https://" + anyHost + "/inbox"}
	fault  = outcome.Outcome{Class: outcome.Retry, Status: 500, Err: "answered 500"}
	fine   = outcome.Outcome{Class: outcome.Delivered, Status: 202}
)

func pause(h *Hosts, until time.Time) Lesson {
	return Lesson{Kind: "throttled", Apply: func(s circuit.State) circuit.State {
		return s.Throttle(h.rules, until, "answered 429", time.Now())
	}}
}

// TestLearningTakesNoTimeAndOneSaveForAll: learning waits for no table, the process knows at once,
// and what is learnt during a save is saved as one.
func TestLearningTakesNoTimeAndOneSaveForAll(t *testing.T) {
	learnt(t, func(t *testing.T, h *Hosts, s *shelf) {
		start, key := time.Now(), circuit.HostKey(anyHost)
		for i := range 1000 {
			h.Observe(target.Host(), target.Inbox, fine)
			h.Learn(key, pause(h, start.Add(time.Duration(i+1)*time.Second)))
			if h.State(key).Phase != circuit.Paused {
				t.Fatalf("after lesson %d the process thinks it is %s", i, h.State(key).Phase)
			}
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("learning took %s", took)
		}
		if n := len(h.known[key].unsaved); n > 3 {
			t.Errorf("%d lessons are kept", n)
		}
		if err := h.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		if got := s.states[key]; got.Phase != circuit.Paused || got.Until.Before(start.Add(900*time.Second)) || got.Until.After(start.Add(1000*time.Second)) || s.saves > 2 {
			t.Errorf("after %d saves: %s until %s", s.saves, got.Phase, got.Until.Sub(start))
		}
	})
}

// TestLessonsAndAttemptsKeepTheirOrder: a success before a trial passed counts
// for nothing, and one after it does.
func TestLessonsAndAttemptsKeepTheirOrder(t *testing.T) {
	for name, after := range map[string]bool{"before": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			learnt(t, func(t *testing.T, h *Hosts, s *shelf) {
				key := circuit.HostKey(anyHost)
				s.states[key] = circuit.State{Key: key, Phase: circuit.HalfOpen, Parked: true, Version: "v0"}
				if _, err := h.LoadFor(t.Context(), true, keysOf(target)); err != nil {
					t.Fatal(err)
				}
				passed := Lesson{Kind: "trial", Apply: func(s circuit.State) circuit.State { return s.TrialPassed(h.rules, "", time.Now()) }}
				if !after {
					h.Observe(target.Host(), target.Inbox, fine)
				}
				h.Learn(key, passed)
				if after {
					h.Observe(target.Host(), target.Inbox, fine)
				}
				if err := h.Flush(t.Context()); err != nil {
					t.Error(err)
				}
				// A success alone is not written: it only has weight with a failure.
				time.Sleep(saveEvery)
				h.Observe(target.Host(), target.Inbox, outcome.Outcome{Class: outcome.Retry, Status: 500})
				if err := h.Flush(t.Context()); err != nil {
					t.Error(err)
				}
				if got := s.states[key]; got.Phase != circuit.Recovering || (got.Window.Total == 2) != after {
					t.Errorf("%s with %d attempts counted", got.Phase, got.Window.Total)
				}
			})
		})
	}
}

// TestWhatCouldNotBeSavedIsKept for the next save.
func TestWhatCouldNotBeSavedIsKept(t *testing.T) {
	learnt(t, func(t *testing.T, h *Hosts, s *shelf) {
		key := circuit.HostKey(anyHost)
		s.broken = true
		for range 3 {
			h.Observe(target.Host(), target.Inbox, fault)
		}
		h.Learn(key, pause(h, time.Now().Add(time.Hour)))
		if err := h.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		if h.State(key).Phase != circuit.Paused {
			t.Error("the process has forgotten what it could not save")
		}
		s.broken = false
		if err := h.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		if got := s.states[key]; got.Phase != circuit.Paused {
			t.Errorf("saved %s", got.Phase)
		}
	})
}

// TestFlushGivesUpOnATableThatHangs: an invocation ends although nothing is saved.
func TestFlushGivesUpOnATableThatHangs(t *testing.T) {
	learnt(t, func(t *testing.T, h *Hosts, s *shelf) {
		start := time.Now()
		for i := range 800 { // of 64 at once, a second each: 13 s
			h.Learn(circuit.HostKey(fmt.Sprintf("h%d.example", i)), pause(h, start.Add(time.Hour)))
		}
		if err := h.Flush(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Flush: %v", err)
		}
		if took := time.Since(start); took != saveTime {
			t.Errorf("Flush took %s", took)
		}
		time.Sleep(time.Minute) // virtual
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.states) != 800 {
			t.Errorf("%d of 800 were saved in the end", len(s.states))
		}
	})
}

// TestFlushDoesNotLookAgainAtServersThatAreDown: a process that runs for weeks knows thousands,
// and Flush follows each batch.
func TestFlushDoesNotLookAgainAtServersThatAreDown(t *testing.T) {
	learnt(t, func(t *testing.T, h *Hosts, _ *shelf) {
		for n := range 5 {
			for range 20 {
				h.Observe(fmt.Sprintf("down%d.example", n), "https://any.example/inbox", outcome.Outcome{Class: outcome.Retry, Reason: outcome.ConnRefused})
			}
		}
		for range 2 {
			if err := h.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if s := h.State(circuit.HostKey("down0.example")); s.Steady() {
			t.Errorf("20 failures left the state %+v", s)
		}
		if n := h.pending.Len(); n > 0 {
			t.Errorf("Flush looks at %d servers of which nothing is to be saved", n)
		}
	})
}

// TestSuccessesFromBeforeAnOutageBringNoCheckForward: a process had kept them for days when another
// process recorded the outage. The quick checks were over too soon (seed 867577944510).
func TestSuccessesFromBeforeAnOutageBringNoCheckForward(t *testing.T) {
	key := circuit.HostKey("s.example")
	for name, c := range map[string]struct{ before, after bool }{"before": {true, false}, "after": {false, true}} {
		t.Run(name, func(t *testing.T) {
			learnt(t, func(t *testing.T, h *Hosts, s *shelf) {
				took := func() {
					h.Observe("s.example", "https://s.example/inbox", outcome.Outcome{Class: outcome.Delivered, Status: 202})
				}
				if c.before {
					took()
				}
				time.Sleep(time.Minute) // virtual
				down := circuit.State{Key: key}.Fault(circuit.Default(), outcome.ConnRefused, "refused", time.Now())
				down.Version = "v"
				s.states[key] = down
				time.Sleep(time.Second) // virtual
				if c.after {
					took()
				}
				if _, err := h.LoadFor(t.Context(), true, KeysOf("s.example")); err != nil {
					t.Fatal(err)
				}
				if err := h.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
				if sooner := s.states[key].CheckAt.Before(down.CheckAt); sooner != c.after {
					t.Errorf("the next check was to be at %v and is at %v", down.CheckAt, s.states[key].CheckAt)
				}
			})
		})
	}
}

// Another process has counted since what the host costs in vain.
func TestSuccessesOfLongAgoEndNoBudget(t *testing.T) {
	learnt(t, func(t *testing.T, h *Hosts, s *shelf) {
		key := circuit.HostKey("a.example")
		h.Observe("a.example", "https://a.example/inbox", outcome.Outcome{Class: outcome.Delivered, Status: 202})
		time.Sleep(48 * time.Hour) // virtual
		s.states[key] = circuit.State{Key: key, Phase: circuit.Healthy, Vain: 10, Version: "other"}
		if _, err := h.LoadFor(t.Context(), true, KeysOf("a.example")); err != nil {
			t.Fatal(err)
		}
		if vain := h.State(key).Vain; vain != 10 {
			t.Errorf("%d requests in vain are known, want the 10 that another process has counted", vain)
		}
		if err := h.Flush(t.Context()); err != nil || s.saves != 0 {
			t.Errorf("%d saves, %v, want none", s.saves, err)
		}
	})
}

// A process that gets no more messages, as on Lambda, would keep what it has counted within a
// second of its last save.
func TestWhatAHostCostsInVainIsSavedWithItsBatch(t *testing.T) {
	learnt(t, func(t *testing.T, h *Hosts, s *shelf) {
		key := circuit.HostKey("a.example")
		for n := range 3 {
			h.Observe("a.example", "https://a.example/inbox", outcome.Outcome{Class: outcome.Unverified, Status: 401})
			if err := h.Flush(t.Context()); err != nil || s.states[key].Vain != n+1 {
				t.Errorf("%d requests in vain are saved, %v, want %d", s.states[key].Vain, err, n+1)
			}
		}
	})
}

func (h *Hosts) Observe(host, inbox string, out outcome.Outcome) {
	h.ObserveUnder(circuit.HostKey(host), circuit.Observation{}.Add(inbox, out))
}
