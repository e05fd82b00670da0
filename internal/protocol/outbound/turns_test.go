package outbound

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurnsGoToWhoHasBegun: time is running for them, and in order of arrival.
func TestTurnsGoToWhoHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1)
		if err := turns.take(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		var order []string
		wait := func(ctx context.Context, name string, begun bool) {
			go func() {
				if err := turns.take(ctx, begun); err != nil {
					order = append(order, name+" gave up")
					return
				}
				order = append(order, name)
				turns.give()
			}()
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		wait(t.Context(), "new 1", false)
		wait(ctx, "new 2", false)
		wait(t.Context(), "new 3", false)
		wait(t.Context(), "begun 1", true)
		wait(t.Context(), "begun 2", true)
		cancel()
		synctest.Wait()
		turns.give()
		synctest.Wait()
		want := []string{"new 2 gave up", "begun 1", "begun 2", "new 1", "new 3"}
		for i := range want {
			if i >= len(order) || order[i] != want[i] {
				t.Fatalf("%q, want %q", order, want)
			}
		}
		if turns.free != 1 {
			t.Errorf("%d turns are free, want 1", turns.free)
		}
	})
}

// TestWaitingForAProcessorIsNotTheHostsFault, and has an end.
func TestWaitingForAProcessorIsNotTheHostsFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := trial(t, nil)
		client.turns = newTurns(1)
		done, err := client.Turn(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := client.Turn(t.Context(), false); !errors.Is(err, ErrStopped) || time.Since(start) != MaxWait {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		done()
		done() // once is enough
		if client.turns.free != 1 {
			t.Errorf("%d turns are free, want 1", client.turns.free)
		}
	})
}

// TestAHostThatHangsInTheHandshakeHoldsNoProcessor: 20 of them, and one
// processor, delay no other host.
func TestAHostThatHangsInTheHandshakeHoldsNoProcessor(t *testing.T) {
	hangs := "https://" + listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	good, authorities := secure(t, accept, nil)
	client := trial(t, func(c *Config) { c.RootCAs = authorities; c.Timeout, c.TLS = time.Minute, time.Minute })
	p := client.transport.(*pool)
	client.turns.free = 1
	var stuck sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for range 20 {
		stuck.Go(func() {
			r, err := NewRequest(ctx, "POST", hangs, "x")
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = client.Do(ctx, r)
		})
	}
	for range 5 {
		if _, err := post(t, client, good.URL); err != nil {
			t.Error(err)
		}
		p.closeIdle()
	}
	cancel()
	stuck.Wait()
	if client.turns.free != 1 {
		t.Errorf("%d turns are free, want 1", client.turns.free)
	}
}
