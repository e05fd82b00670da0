package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/servers/circuit"
)

func failing(n int) string { return fmt.Sprintf("down%d.example", n) }

func (h *Hosts) refused(host string) {
	h.Observe(host, "https://"+host+"/inbox", outcome.Outcome{Class: outcome.Retry, Reason: outcome.ConnRefused})
}

// In `fedpost up` each message is an invocation. A goroutine for each pending host of the process
// after each of them took 4 GB with 2,000 hosts that refused connections.
func TestInvocationsTimesHostsTakeNoGoroutines(t *testing.T) {
	const hosts, invocations = 2000, 100
	learnt(t, func(t *testing.T, h *Hosts, _ *shelf) {
		for n := range hosts {
			h.refused(failing(n))
		}
		before := runtime.NumGoroutine()
		var ended sync.WaitGroup
		for n := range invocations {
			ended.Go(func() {
				h.FlushSoon()
				if err := h.Settle(t.Context(), circuit.HostKey(failing(n))); err != nil {
					t.Error(err)
				}
			})
		}
		ended.Go(func() { _ = h.Flush(t.Context()) }) // gives up after 5 s: a save takes one
		time.Sleep(saveEvery / 2)                     // virtual
		if n := runtime.NumGoroutine() - before; n > savesAtOnce+invocations+1 {
			t.Errorf("%d goroutines for %d hosts and %d invocations, at most %d saves at once", n, hosts, invocations, savesAtOnce)
		}
		ended.Wait()
		time.Sleep(2 * time.Minute) // virtual: until all is saved
	})
}

// What an invocation has counted is saved although no other message comes.
func TestFlushSoonSavesAllAndThenRests(t *testing.T) {
	learnt(t, func(t *testing.T, h *Hosts, s *shelf) {
		for range 3 { // the later ones come within a second of the save
			for n := range 200 {
				h.refused(failing(n))
			}
			h.FlushSoon()
			time.Sleep(1500 * time.Millisecond) // virtual
		}
		time.Sleep(20 * time.Second) // virtual
		s.mu.Lock()
		defer s.mu.Unlock()
		for n := range 200 {
			if got := s.states[circuit.HostKey(failing(n))]; got.Streak != 3 {
				t.Fatalf("%s is saved with %d failures in a row, want 3", failing(n), got.Streak)
			}
		}
		if h.mu.Lock(); h.timed {
			t.Error("a timer is set although nothing is left to save")
		}
		h.mu.Unlock()
	})
}

// A table that refuses all writes is neither asked nor complained of for each host each second.
func TestStatesThatCannotBeSavedAreTriedSeldomAndToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		stored := &refusing{refuses: true}
		h := New(stored, circuit.Default(), time.Minute, time.Now, slog.New(slog.NewTextHandler(&log, nil)))
		const hosts = 500
		for n := range hosts {
			h.refused(failing(n))
		}
		h.FlushSoon()
		time.Sleep(time.Minute) // virtual
		stored.mu.Lock()
		tries := stored.tries
		stored.refuses = false
		stored.mu.Unlock()
		if most := hosts * (60/int(saveTime.Seconds()) + 1); tries > most {
			t.Errorf("%d tries in a minute, at most %d", tries, most)
		}
		if lines := strings.Count(log.String(), "\n"); lines == 0 || lines > 60/int(saveTime.Seconds())+1 {
			t.Errorf("%d lines in the log of a minute", lines)
		}
		time.Sleep(time.Minute) // virtual
		h.mu.Lock()
		defer h.mu.Unlock()
		if n := h.pending.Len(); n > 0 {
			t.Errorf("%d hosts are not saved although the table takes them again", n)
		}
	})
}

// refusing refuses writes at first.
type refusing struct {
	circuit.Store
	mu      sync.Mutex
	tries   int
	refuses bool
}

func (r *refusing) SaveServer(_ context.Context, s circuit.State) (circuit.State, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuses {
		r.tries++
		return s, errors.New("the table is read-only")
	}
	s.Version = "v"
	return s, nil
}

// Strangers choose the hosts, so what is known of them is bounded. Neither is forgotten who accepts
// nor what is not saved yet.
func TestTheLeastRecentlyLoadedHostsAreForgotten(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var passed atomic.Int64
	now := func() time.Time { return start.Add(time.Duration(passed.Load())) }
	h := New(&table{states: map[string]circuit.State{}, broken: true}, circuit.Default(), time.Second, now, slog.New(slog.DiscardHandler))
	const at = 1000
	load := func(name string, hosts int, each func(string)) {
		for from := 0; from < hosts; from += at {
			var keys []Keys
			for n := range at {
				keys = append(keys, KeysOf(fmt.Sprintf("%s%d.example", name, from+n)))
			}
			if _, err := h.LoadFor(t.Context(), false, keys...); err != nil {
				t.Fatal(err)
			}
			for n := range at {
				each(fmt.Sprintf("%s%d.example", name, from+n))
			}
			h.settled() // else a save under way keeps a host
			passed.Add(int64(2 * time.Second))
		}
	}
	h.refused("unsaved.example")
	load("accepts", mostAccepting/2, h.Accepted)
	load("any", 3*mostOthers, func(string) {})
	bound := func(most int) {
		t.Helper()
		h.mu.Lock()
		defer h.mu.Unlock()
		if n := len(h.known); n > most+at || h.accepting.Len()+h.others.Len() != n {
			t.Errorf("%d hosts are known, %d and %d in the lists, at most %d", n, h.accepting.Len(), h.others.Len(), most+at)
		}
	}
	bound(mostAccepting/2 + mostOthers)
	for host, want := range map[string]bool{"unsaved.example": true, "accepts0.example": true, "any0.example": false, fmt.Sprintf("any%d.example", 3*mostOthers-1): true} {
		h.mu.Lock()
		_, known := h.known[circuit.HostKey(host)]
		h.mu.Unlock()
		if known != want {
			t.Errorf("%s is known: %t, want %t", host, known, want)
		}
	}
	load("more", 2*mostAccepting, h.Accepted)
	bound(mostAccepting + mostOthers)
	for range 2 {
		h.refused("accepts0.example")
		load("last", mostOthers, h.refused)
	}
	bound(mostAccepting + 4*mostOthers) // what is not saved stays
}

// What a server that accepts nothing has cost is on its way to the table when its message ends: a
// process that is killed again and again a second later would spend its budget each time.
func TestAKillSoonAfterwardsForgetsNothingThatAHostHasCost(t *testing.T) {
	learnt(t, func(t *testing.T, h *Hosts, s *shelf) {
		for range 3 {
			h.Observe(anyHost, "https://a.example/inbox", outcome.Outcome{Class: outcome.Unverified, Status: 401})
		}
		time.Sleep(2 * time.Second) // virtual: of two saves; no message ends, no timer is set
		s.mu.Lock()
		defer s.mu.Unlock()
		if vain := s.states[circuit.HostKey(anyHost)].Vain; vain != 3 {
			t.Errorf("%d requests are saved of 3 that the host refused", vain)
		}
	})
}
