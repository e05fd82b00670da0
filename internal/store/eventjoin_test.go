package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/engine/table"
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

// picky refuses an item, and hangs while it is told to.
type picky struct {
	table.Table
	refuses string
	hangs   atomic.Bool
}

func (p *picky) Transact(ctx context.Context, ops []table.Op) error {
	if p.hangs.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(20 * time.Millisecond) // virtual
	for _, o := range ops {
		if o.Put != nil && strings.Contains(o.Put.Key.SK, p.refuses) {
			return table.ErrTooLarge
		}
	}
	return p.Table.Transact(ctx, ops)
}

func fallen(host string) circuit.State {
	return circuit.State{Key: circuit.HostKey(host), Phase: circuit.Healthy}.Fault(circuit.Default(), outcome.ConnRefused, "refused", time.Now())
}

func TestAStateThatTheTableRefusesFailsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := store.New(&picky{Table: memory.New(time.Now, nil).Table(), refuses: "odd"}, time.Now)
		var failed sync.Map
		var all sync.WaitGroup
		for n := range 200 {
			host := fmt.Sprintf("h%d.example", n)
			if n == 100 {
				host = "odd.example"
			}
			all.Go(func() {
				if _, err := st.SaveServer(t.Context(), fallen(host)); err != nil {
					failed.Store(host, err)
				}
			})
		}
		all.Wait()
		if _, ok := failed.Load("odd.example"); !ok {
			t.Error("the state that the table refuses was saved")
		}
		failed.Range(func(host, err any) bool {
			if host != "odd.example" || !errors.Is(err.(error), table.ErrTooLarge) {
				t.Errorf("%v: %v", host, err)
			}
			return true
		})
	})
}

// A process may be frozen for hours in between, and the server be well again.
func TestAChangeIsNotWrittenAfterItsCallerGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &picky{Table: memory.New(time.Now, nil).Table(), refuses: "none"}
		st := store.New(slow, time.Now)
		slow.hangs.Store(true)
		var all sync.WaitGroup
		for n := range 100 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				if _, err := st.SaveServer(ctx, fallen(fmt.Sprintf("h%d.example", n))); !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		slow.hangs.Store(false)
		time.Sleep(time.Minute) // virtual
		for n := range 100 {
			if states, err := st.Servers(t.Context(), circuit.HostKey(fmt.Sprintf("h%d.example", n))); err != nil || len(states) > 0 {
				t.Errorf("%v, %v", states, err)
			}
		}
	})
}
