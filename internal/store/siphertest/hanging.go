package siphertest

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"fedpost/internal/protocol/sipher/peers"
)

// reserve reserves the next try of a server, and returns when there may be one: the zero
// time is now.
func (b *bed) reserve(url string) time.Time {
	b.t.Helper()
	at, err := b.ReserveTry(b.ctx, url, b.Now(), 2*time.Second)
	if err != nil {
		b.t.Fatal(err)
	}
	return at
}

func (b *bed) testTriesOfAServerThatHangsAreReservedOneByOne() {
	url := b.url("b")
	if _, err := b.ReserveTry(b.ctx, url, b.Now(), time.Second); !errors.Is(err, peers.ErrUnknown) {
		b.t.Errorf("of an unknown server: %v", err)
	}
	b.insert(peer(url, b.Now()))
	mark := func(r peers.Reason) {
		b.t.Helper()
		if err := b.MarkUnhealthy(b.ctx, url, r, b.Now()); err != nil {
			b.t.Fatal(err)
		}
	}
	for _, end := range []func() error{
		func() error { return nil },
		func() error { return b.MarkAnswering(b.ctx, url) },
		func() error { return b.MarkHealthy(b.ctx, url, b.Now()) },
		func() error { return b.MarkUnhealthy(b.ctx, url, peers.ConnRefused, b.Now()) },
	} {
		if err := end(); err != nil {
			b.t.Fatal(err)
		}
		for range 3 {
			if at := b.reserve(url); !at.IsZero() {
				b.t.Errorf("has to wait until %s", at)
			}
		}
		mark(peers.TimedOut)
		for range 3 {
			next := b.Now().Add(2 * time.Second)
			if at := b.reserve(url); !at.IsZero() {
				b.t.Errorf("the first has to wait until %s", at)
			}
			// Another time-out changes nothing.
			mark(peers.TimedOut)
			b.advance(time.Second)
			if at := b.reserve(url); !at.Equal(next) {
				b.t.Errorf("the next has to wait until %s, want %s", at, next)
			}
			b.advance(time.Second)
		}
	}
	var got atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if at, err := b.ReserveTry(b.ctx, url, b.Now(), time.Second); err != nil {
				b.t.Error(err)
			} else if at.IsZero() {
				got.Add(1)
			}
		})
	}
	if all.Wait(); got.Load() != 1 {
		b.t.Errorf("%d of 20 at once have reserved one try", got.Load())
	}
}
