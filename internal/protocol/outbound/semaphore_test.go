package outbound

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestPermitsGoToWhoHasBegun, because their time is running, and in order of arrival.
func TestPermitsGoToWhoHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := newSemaphore(1)
		if err := sem.acquire(t.Context(), newAttempt); err != nil {
			t.Fatal(err)
		}
		var order []string
		wait := func(ctx context.Context, name string, k purpose) {
			go func() {
				if err := sem.acquire(ctx, k); err != nil {
					order = append(order, name+" gave up")
					return
				}
				order = append(order, name)
				sem.release(k)
			}()
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		wait(t.Context(), "new 1", newAttempt)
		wait(ctx, "new 2", newAttempt)
		wait(t.Context(), "new, at a stranger", newStranger)
		wait(t.Context(), "new 3", newAttempt)
		wait(t.Context(), "begun 1", begun)
		wait(t.Context(), "handshake", handshake)
		wait(t.Context(), "begun 2", begun)
		cancel()
		synctest.Wait()
		sem.release(newAttempt)
		synctest.Wait()
		want := []string{"new 2 gave up", "begun 1", "handshake", "begun 2", "new 1", "new, at a stranger", "new 3"}
		for i := range want {
			if i >= len(order) || order[i] != want[i] {
				t.Fatalf("%q, want %q", order, want)
			}
		}
		if sem.free != 1 {
			t.Errorf("%d permits are free, want 1", sem.free)
		}
	})
}

// TestStrangersLeaveHalfOfThePermits: handshakes with hosts that have accepted nothing lately leave
// permits for others, and attempts that would need more such handshakes do not begin.
func TestStrangersLeaveHalfOfThePermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := Config{TLS: time.Hour, Proven: func(host string) bool { return host == "proven.test" }}
		client := trial(t, func(c *Config) { c.Proven = config.Proven })
		client.semaphore = newSemaphore(4)
		d := newDialer(config, time.Hour, client.semaphore, sessions{tls.NewLRUClientSessionCache(1)})
		ctx, cancel := context.WithCancel(t.Context())
		var under atomic.Int32
		var all sync.WaitGroup
		// The other side reads nothing, so that a handshake that has begun keeps its permit.
		handshake := func(ctx context.Context, address string) {
			ours, theirs := net.Pipe()
			all.Go(func() {
				defer theirs.Close()
				if _, err := d.handshake(ctx, &counted{ours, &under}, address); err == nil {
					t.Errorf("the handshake with %s succeeded", address)
				}
			})
			synctest.Wait()
		}
		waits, giveUp := context.WithCancel(t.Context())
		for range 2 {
			handshake(ctx, "stranger.test:443")
		}
		for range 8 {
			handshake(waits, "stranger.test:443")
		}
		if under.Load() != 2 || client.semaphore.free != 2 {
			t.Errorf("10 handshakes with strangers: %d are under way, want 2; %d of 4 permits are free, want 2", under.Load(), client.semaphore.free)
		}
		handshake(ctx, "proven.test:443")
		if under.Load() != 3 {
			t.Errorf("a handshake with a proven host: %d are under way, want 3", under.Load())
		}
		done, err := client.Acquire(t.Context(), "proven.test", false)
		if err != nil {
			t.Fatal(err)
		}
		done()
		start := time.Now()
		if _, err := client.Acquire(t.Context(), "stranger.test", false); !errors.Is(err, ErrStopped) || time.Since(start) != MaxWait {
			t.Errorf("a delivery to a stranger begins after %v (%v), want none before those under way", time.Since(start), err)
		}
		start = time.Now()
		time.AfterFunc(time.Second, giveUp)
		done, err = client.Acquire(t.Context(), "stranger.test", false)
		if err != nil || time.Since(start) != time.Second {
			t.Fatalf("a delivery to a stranger begins after %v (%v), want %v, when no handshake waits", time.Since(start), err, time.Second)
		}
		done()
		cancel()
		all.Wait()
		if client.semaphore.free != 4 || client.semaphore.strangers != 2 {
			t.Errorf("%d permits and %d of the strangers are free, want 4 and 2", client.semaphore.free, client.semaphore.strangers)
		}
		// Signatures are no handshakes: without any under way, they have all permits.
		for range 4 {
			if _, err := client.Acquire(t.Context(), "stranger.test", false); err != nil {
				t.Error(err)
			}
		}
	})
}

// counted is a connection that counts itself when something is written.
type counted struct {
	net.Conn
	n *atomic.Int32
}

func (c *counted) Write(p []byte) (int, error) {
	c.n.Add(1)
	return c.Conn.Write(p)
}

// TestAHandshakeThatWaitsForAProcessorIsNotTheHostsFault: neither before it begins, nor when the
// host has answered.
func TestAHandshakeThatWaitsForAProcessorIsNotTheHostsFault(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer bool // the host answers, when the only permit is another's
		after  time.Duration
	}{
		{"no permit to begin", false, 15 * time.Second},
		{"no permit to go on", true, 7 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sem := newSemaphore(1)
				d := newDialer(Config{TLS: 7 * time.Second}, time.Hour, sem, sessions{tls.NewLRUClientSessionCache(1)})
				ctx, cancel := context.WithTimeoutCause(t.Context(), 15*time.Second, ErrTimeout)
				defer cancel()
				ours, theirs := net.Pipe()
				defer theirs.Close()
				if c.answer {
					go func() {
						hello(theirs)
						if err := sem.acquire(t.Context(), begun); err != nil {
							t.Error(err)
						}
						_, _ = theirs.Write([]byte{22, 3, 3, 0, 4}) // the beginning of an answer
					}()
				} else if err := sem.acquire(t.Context(), begun); err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				if _, err := d.handshake(ctx, ours, "a.hosts.test:443"); !errors.Is(err, ErrStopped) || time.Since(start) != c.after {
					t.Errorf("error %v after %v, want %v after %v", err, time.Since(start), ErrStopped, c.after)
				}
			})
		})
	}
}

// TestWaitingForAProcessorIsNotTheHostsFault, and has an end.
func TestWaitingForAProcessorIsNotTheHostsFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := trial(t, nil)
		client.semaphore = newSemaphore(1)
		done, err := client.Acquire(t.Context(), "a.hosts.test", false)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := client.Acquire(t.Context(), "a.hosts.test", false); !errors.Is(err, ErrStopped) || time.Since(start) != MaxWait {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		done()
		done() // once is enough
		if client.semaphore.free != 1 {
			t.Errorf("%d permits are free, want 1", client.semaphore.free)
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
	client.semaphore.free = 1
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
	if client.semaphore.free != 1 {
		t.Errorf("%d permits are free, want 1", client.semaphore.free)
	}
}
