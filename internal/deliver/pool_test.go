package deliver

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestALimiterGivesNoMorePlacesThanThereAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		var now, most, slow atomic.Int32
		var wg sync.WaitGroup
		for i := range 40 {
			host := bound{pool{host: "a.example"}, 3}
			if i%2 == 0 {
				host = bound{pool{host: "b.example"}, 3}
			}
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
				defer cancel()
				leave, ok := l.enter(ctx, host, bound{pool{queue: "normal"}, 4}, bound{pool{protocol: "unbounded"}, 0})
				if !ok {
					slow.Add(1)
					return
				}
				defer leave()
				for n, m := now.Add(1), most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				time.Sleep(time.Second)
				now.Add(-1)
			})
		}
		wg.Wait()
		if most.Load() != 4 || slow.Load() != 40-3*4 {
			t.Errorf("%d at once, want 4; %d found no place in time, want 28", most.Load(), slow.Load())
		}
		if n := len(l.pools); n != 0 {
			t.Errorf("%d pools are kept that nobody uses: hosts are chosen by strangers", n)
		}
	})
}

func TestAFreePlaceIsTakenWhateverTheContextSays(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := newLimiter()
	for range 100 {
		leave, ok := l.enter(ctx, bound{pool{host: "a.example"}, 1})
		if !ok {
			t.Fatal("no place")
		}
		if _, ok := l.enter(ctx, bound{pool{host: "a.example"}, 1}); ok {
			t.Fatal("two have the one place")
		}
		leave()
	}
}
