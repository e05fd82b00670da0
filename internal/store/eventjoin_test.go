package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/store"
	"fedpost/internal/testkit/memory"
)

// When a network fails, thousands of circuits open in a moment. With one write after another of 20 ms
// in each of eight logs, what is parked would wait for them, and the messages fill the memory.
func TestCircuitsThatOpenInAMomentAreWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const servers, stale = 2000, 20
		d := &distant{Table: memory.New(time.Now, nil).Table()}
		st, other := store.New(d, time.Now), store.New(d, time.Now)
		host := func(n int) string { return fmt.Sprintf("h%d.example", n) }
		open := func(n int) circuit.State {
			return circuit.State{Key: circuit.HostKey(host(n)), Phase: circuit.Healthy}.Fault(circuit.Default(), outcome.ConnRefused, "refused", time.Now())
		}
		for n := range stale { // another process has opened them already
			if _, err := other.SaveServer(t.Context(), open(n)); err != nil {
				t.Fatal(err)
			}
		}
		before, begin := d.writes.Load(), time.Now()
		var all sync.WaitGroup
		for n := range servers {
			callers := 1
			if n < 2*stale {
				callers = 2 // the state of the second is stale
			}
			for range callers {
				all.Go(func() {
					if _, err := st.SaveServer(t.Context(), open(n)); err != nil && !errors.Is(err, circuit.ErrChanged) {
						t.Error(err)
					}
				})
			}
		}
		all.Wait()
		// A conflict repeats a transaction.
		if writes := d.writes.Load() - before; writes > servers/20+3*stale {
			t.Errorf("%d writes for %d servers", writes, servers)
		}
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("the last circuit was open in the table after %s", took)
		}
		told := map[string]int{}
		for cursor := ""; ; {
			p, err := st.Events(t.Context(), cursor, 100)
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Events) == 0 {
				break
			}
			for _, e := range p.Events {
				told[e.Host]++
			}
			cursor = p.Next
		}
		for n := range servers {
			if told[host(n)] != 1 {
				t.Errorf("%d events of %s", told[host(n)], host(n))
			}
		}
		states, err := st.Servers(t.Context(), circuit.HostKey(host(0)), circuit.HostKey(host(servers-1)))
		if err != nil || len(states) != 2 || states[circuit.HostKey(host(servers-1))].Phase != circuit.Unhealthy {
			t.Errorf("%v, %v", states, err)
		}
	})
}
