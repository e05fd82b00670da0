package deliver

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// enters runs work when e has its places, and returns false if e gives up before ctx ends.
func enters(ctx context.Context, l *limiter, work func(), bounds ...bound) bool {
	ended := make(chan bool, 1)
	e := &entry{refused: func() { ended <- false }}
	e.add(bounds...)
	e.begin = func() {
		go func() {
			defer func() { ended <- true }()
			defer l.leave(e)
			work()
		}()
	}
	l.enter(e)
	defer context.AfterFunc(ctx, func() { l.cancel(e) })()
	return <-ended
}

func TestALimiterGivesNoMorePlacesThanThereAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		var now, most, slow atomic.Int32
		var wg sync.WaitGroup
		for i := range 40 {
			host := bound{pool: pool{host: "a.example"}, size: 3}
			if i%2 == 0 {
				host = bound{pool: pool{host: "b.example"}, size: 3}
			}
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
				defer cancel()
				ok := enters(ctx, l, func() {
					for n, m := now.Add(1), most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					time.Sleep(time.Second)
					now.Add(-1)
				}, host, bound{pool: pool{queue: "normal"}, size: 4}, bound{pool: pool{protocol: "unbounded"}, size: 0})
				if !ok {
					slow.Add(1)
				}
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
	only := bound{pool: pool{host: "a.example"}, size: 1}
	for range 100 {
		begun := false
		holder := &entry{bounds: []bound{only}, begin: func() { begun = true }}
		if l.enter(holder); !begun {
			t.Fatal("no place")
		}
		if enters(ctx, l, func() {}, only) {
			t.Fatal("two have the one place")
		}
		l.leave(holder)
		if !enters(ctx, l, func() {}, only) {
			t.Fatal("a place that was left is not free")
		}
	}
}

// TestWhoGivesUpLeavesItsPlacesToOthers has an entry that holds a place of one pool while it
// waits for another.
func TestWhoGivesUpLeavesItsPlacesToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		host, all := bound{pool: pool{host: "a.example"}, size: 1}, bound{pool: pool{queue: "normal"}, size: 1}
		var mu sync.Mutex
		var order []string
		note := func(what string) func() {
			return func() { mu.Lock(); defer mu.Unlock(); order = append(order, what) }
		}
		so := func() []string { mu.Lock(); defer mu.Unlock(); return slices.Clone(order) }
		holder := &entry{bounds: []bound{all}, begin: note("holder")}
		second := &entry{bounds: waiting(placeWait, host, all), begin: note("second"), refused: note("second gives up")}
		third := &entry{bounds: []bound{host}, begin: note("third")}
		patient := &entry{bounds: []bound{all}, begin: note("patient"), refused: note("patient gives up")}
		for _, e := range []*entry{holder, second, third, patient} {
			l.enter(e)
		}
		time.Sleep(placeWait - time.Nanosecond)
		synctest.Wait()
		if got := so(); !slices.Equal(got, []string{"holder"}) {
			t.Errorf("%q, want the holder only", got)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		l.leave(third)
		l.leave(holder)
		l.cancel(patient) // it has its place: nothing to give up
		l.leave(patient)
		if got, want := so(), []string{"holder", "second gives up", "third", "patient"}; !slices.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
		if len(l.pools) != 0 {
			t.Errorf("%d pools are kept", len(l.pools))
		}
	})
}

// TestAnEntryThatGotItsPlaceInTimeWaitsForTheNextAsLongAsItTakes: each bound says how long it is
// waited for.
func TestAnEntryThatGotItsPlaceInTimeWaitsForTheNextAsLongAsItTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		host, all := bound{pool: pool{host: "a.example"}, size: 1}, bound{pool: pool{queue: "normal"}, size: 1}
		first, second := &entry{bounds: []bound{host}, begin: func() {}}, &entry{bounds: []bound{all}, begin: func() {}}
		l.enter(first)
		l.enter(second)
		begun, refused := false, false
		e := &entry{bounds: append(waiting(placeWait, host), all), begin: func() { begun = true }, refused: func() { refused = true }}
		l.enter(e)
		time.Sleep(placeWait / 2)
		l.leave(first)
		time.Sleep(time.Minute)
		synctest.Wait()
		if begun || refused {
			t.Fatalf("begun: %t, refused: %t, while another has the place", begun, refused)
		}
		if l.leave(second); !begun || refused {
			t.Errorf("begun: %t, refused: %t, when the place is free", begun, refused)
		}
		l.leave(e)
	})
}
