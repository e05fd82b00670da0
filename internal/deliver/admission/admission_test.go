package admission

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// attempt is one that takes a time, and records what becomes of it.
func attempt(host string, takes time.Duration, fate *sync.Map) *Attempt {
	a := &Attempt{Host: host, Inbox: host + "/inbox", Receives: 1}
	a.Do = func(signed func()) Result {
		signed()
		fate.Store(a, "begun")
		time.Sleep(takes)
		return Accepted
	}
	a.Done = func() {
		if was, _ := fate.Swap(a, "done"); was != "begun" {
			panic(fmt.Sprint("done although ", was))
		}
	}
	a.Back = func(at time.Time, why string) { fate.Store(a, "back: "+why) }
	return a
}

func count(fates *sync.Map) map[any]int {
	n := map[any]int{}
	fates.Range(func(_, fate any) bool {
		n[fate]++
		return true
	})
	return n
}

// TestAnAttemptThatWaitsCostsNoGoroutine: a goroutine for each of tens of thousands would cost
// hundreds of megabytes.
func TestAnAttemptThatWaitsCostsNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Bounds{Places: 4, PerHost: 4}, time.Now)
		var fates sync.Map
		before := runtime.NumGoroutine()
		for range 1000 {
			s.Enter(attempt("a.example", time.Second, &fates))
		}
		synctest.Wait()
		if n := runtime.NumGoroutine() - before; n > 4 {
			t.Errorf("%d goroutines for 1000 attempts, of which 4 may begin", n)
		}
		time.Sleep(time.Hour) // virtual
		synctest.Wait()
		if n := count(&fates); n["done"] != 1000 {
			t.Errorf("what became of 1000 attempts: %v", n)
		}
	})
}

// TestAnAttemptThatMayBeMadeHereNeedsNoGoroutine, and one that has to wait does not hold up its
// caller.
func TestAnAttemptThatMayBeMadeHereNeedsNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Bounds{Places: 1}, time.Now)
		var fates sync.Map
		here := func() *Attempt {
			a := attempt("a.example", time.Second, &fates)
			a.Here = true
			return a
		}
		began := time.Now()
		s.Enter(here())
		if n := count(&fates); n["done"] != 1 || time.Since(began) != time.Second {
			t.Errorf("after %s: %v, want one done after 1s", time.Since(began), n)
		}
		s.Enter(attempt("b.example", time.Second, &fates))
		began = time.Now()
		s.Enter(here())
		if took := time.Since(began); took != 0 {
			t.Errorf("an attempt that waits held up its caller for %s", took)
		}
		time.Sleep(time.Minute) // virtual
		synctest.Wait()
		if n := count(&fates); n["done"] != 3 {
			t.Errorf("what became of 3 attempts: %v", n)
		}
	})
}

// TestAnAttemptThatCannotBeginInTimeGoesBackWithItsReason.
func TestAnAttemptThatCannotBeginInTimeGoesBackWithItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Bounds{Places: 10, PerHost: 1}, time.Now)
		var fates sync.Map
		s.Enter(attempt("a.example", time.Minute, &fates))
		late := attempt("a.example", 0, &fates)
		late.Until = time.Now().Add(10 * time.Second)
		var back time.Time
		keep := late.Back
		late.Back = func(at time.Time, why string) {
			if keep(at, why); time.Since(late.Until) < 0 || time.Since(late.Until) > lookEvery {
				t.Errorf("it went back at %s, want %s", time.Now(), late.Until)
			}
			back = at
		}
		s.Enter(late)
		given := attempt("a.example", 0, &fates)
		s.Enter(given)
		if !s.Withdraw(given) || s.Withdraw(given) {
			t.Error("an attempt that waits can be withdrawn once")
		}
		time.Sleep(time.Hour) // virtual
		synctest.Wait()
		fate, _ := fates.Load(late)
		if want := "back: " + table[hostWindow].reason; fate != want {
			t.Errorf("%v, want %s", fate, want)
		}
		if back.Before(late.Until) {
			t.Errorf("it comes back at %s, before it went at %s", back, late.Until)
		}
		if fate, ok := fates.Load(given); ok {
			t.Errorf("an attempt that was withdrawn: %v", fate)
		}
	})
}

// TestMessagesAreReceivedAsLongAsThereIsMemory: what hangs goes back, and the next is received.
func TestMessagesAreReceivedAsLongAsThereIsMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Bounds{Places: 40, PerHost: 1, Waiting: 5}, time.Now)
		var fates sync.Map
		enter := func(host string, takes time.Duration) *Ticket {
			ticket, ok := s.Take(t.Context(), "one", "", 1, 0)
			if !ok {
				t.Fatal("no memory")
			}
			a := attempt(host, takes, &fates)
			a.Ticket = ticket
			s.Enter(a)
			return ticket
		}
		for range 6 {
			enter("hangs.example", 15*time.Second)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, ok := s.Take(ctx, "one", "", 1, 0); ok {
			t.Error("there was memory for a sixth that waits")
		}
		began := time.Now()
		enter("well.example", time.Millisecond)
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("a message waited for memory for %s", took)
		}
		time.Sleep(2 * time.Minute) // virtual
		synctest.Wait()
		n := count(&fates)
		if n["done"] < 2 || n["done"] == 7 || n["begun"] > 0 {
			t.Errorf("what became of 7 attempts: %v", n)
		}
	})
}

// With hosts that fail faster than their outcomes are recorded, 2,000 messages waited for memory in
// memory, 100 MB of them.
func TestFewMessagesWaitForMemoryInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Bounds{Places: 8, Waiting: 8}, time.Now)
		first, ok := s.Take(t.Context(), "a", "", 16, 0)
		if !ok {
			t.Fatal("no memory")
		}
		var received atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		var under sync.WaitGroup
		under.Go(func() {
			for s.Room(ctx); ctx.Err() == nil; s.Room(ctx) {
				n := received.Add(1)
				under.Go(func() {
					if got, ok := s.Take(ctx, fmt.Sprint(n), "", 1, 0); ok {
						time.Sleep(time.Second) // virtual
						s.End(got)
					}
				})
				synctest.Wait()
			}
		})
		time.Sleep(time.Minute) // virtual
		if n := received.Load(); n != mostTickets {
			t.Errorf("%d messages were received while none got memory, want %d", n, mostTickets)
		}
		s.Keep(first, 0)
		time.Sleep(time.Minute) // virtual
		if n := received.Load(); n < 5*mostTickets/2 {
			t.Errorf("%d messages were received in the minute in which there was memory", n)
		}
		stop()
		under.Wait()
	})
}

// Large messages have a bound of their own: those that wait keep no small one from being received.
func TestLargeMessagesThatWaitLeaveRoom(t *testing.T) {
	s := New(Bounds{Places: 8, Waiting: 8, Bytes: 1 << 20}, time.Now)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	holder, ok := s.Take(ctx, "first", "", 1, 1<<20)
	for more := true; more && ok; { // half of Bytes each
		_, more = s.Take(canceled(t), "more", "", 1, 1<<20)
	}
	for range 2 * mostTickets {
		go s.Take(ctx, "small in bytes", "", 1, 1)
	}
	ready := make(chan struct{})
	go func() { s.Room(t.Context()); close(ready) }()
	select {
	case <-ready:
	case <-time.After(time.Minute):
		t.Error("nothing is received while large messages wait")
	}
	s.End(holder)
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// TestAMessageTakesTheRoomThatWasMadeForIt: a look frees a quarter of the memory, and no more for
// the message that gets it.
func TestAMessageTakesTheRoomThatWasMadeForIt(t *testing.T) {
	p := newPlan(Bounds{Waiting: 8, PerHost: 1})
	hangs := &Attempt{Host: "h", Inbox: "i"}
	p.enter(hangs, 0, 0)
	p.signed(hangs, 0)
	for range 8 {
		p.enter(&Attempt{Host: "h", Inbox: "i", Ticket: p.take("one", "", 1, 0, 0)}, 0, 0)
	}
	p.take("two", "", 2, 0, 0)
	p.take("three", "", 8, 0, quick)
	if p.advance(quick + lookEvery); len(p.sent) != 4 || p.memory.waits() {
		t.Errorf("%d of 8 that wait have gone back, want 4; a message still waits: %v", len(p.sent), p.memory.waits())
	}
}

// TestAClockThatIsSetBackMakesNobodyWait for longer than until it is where it was.
func TestAClockThatIsSetBackMakesNobodyWait(t *testing.T) {
	now := time.Now()
	s := New(Bounds{Places: 1}, func() time.Time { return now })
	var fates sync.Map
	for range 3 {
		a := attempt("a.example", 0, &fates)
		a.Here = true
		s.Enter(a)
		now = now.Add(-time.Hour)
	}
	if n := count(&fates); n["done"] != 3 {
		t.Errorf("what became of 3 attempts: %v", n)
	}
}

// TestWhatIsKnownOfHostsIsBounded: strangers make up their names.
func TestWhatIsKnownOfHostsIsBounded(t *testing.T) {
	p := newPlan(Bounds{})
	at := func(i int, r Result) {
		a := &Attempt{Host: fmt.Sprint("h", i), Site: fmt.Sprint("s", i)}
		p.enter(a, 0, time.Duration(i)*time.Millisecond)
		if len(p.started) != 1 {
			t.Fatalf("attempt %d has not begun", i)
		}
		p.started = nil
		p.leave(a, r, time.Duration(i)*time.Millisecond)
	}
	at(0, Accepted)
	for i := 1; i < 3*mostHosts; i++ {
		at(i, Failed)
	}
	if h, s := len(p.hosts), len(p.sites); h > mostHosts || s > mostHosts {
		t.Errorf("%d hosts and %d sites are known, want %d and %d at most", h, s, mostHosts, mostHosts)
	}
	if h := p.hosts["h0"]; h == nil || h.class != prompt {
		t.Error("a prompt host was forgotten for others")
	}
}

// TestEveryBoundHasItsReason, and every rule that an attempt may wait for says so.
func TestEveryBoundHasItsReason(t *testing.T) {
	for r := none + 1; int(r) < len(table); r++ {
		row := table[r]
		if row.counts == "" || row.most == "" || row.full == "" || row.why == "" {
			t.Errorf("rule %d: %+v", r, row)
		}
		if r < allWaiting && row.reason == "" {
			t.Errorf("an attempt that waits because of %q is told nothing", row.counts)
		}
	}
}

// TestAnInboxThatHangsLeavesPlacesToOthersOfItsHost.
func TestAnInboxThatHangsLeavesPlacesToOthersOfItsHost(t *testing.T) {
	p := newPlan(Bounds{PerHost: 8})
	for range 20 {
		p.enter(&Attempt{Host: "h", Inbox: "hangs"}, 0, 0)
	}
	p.started = nil
	if p.enter(&Attempt{Host: "h", Inbox: "well"}, 0, 0); len(p.started) != 1 {
		t.Errorf("%d attempts at another inbox have begun, want 1", len(p.started))
	}
}

// TestAHostThatHangsIsPromptNoMore, and one that accepts promptly is.
func TestAHostThatHangsIsPromptNoMore(t *testing.T) {
	p := newPlan(Bounds{})
	first, second := &Attempt{Host: "h", Inbox: "i"}, &Attempt{Host: "h", Inbox: "i"}
	p.enter(first, 0, 0)
	p.leave(first, Accepted, time.Millisecond)
	if p.hosts["h"].class != prompt {
		t.Error("a host that has accepted within a millisecond is not prompt")
	}
	p.enter(second, 0, time.Second)
	p.signed(second, time.Second)
	if p.advance(time.Second + quick); p.hosts["h"].class != others {
		t.Errorf("a host that hangs for %s is still prompt", quick)
	}
}

// TestAHostThatFailsAgainAndAgainGetsOneAttemptAtATime, until it accepts one.
func TestAHostThatFailsAgainAndAgainGetsOneAttemptAtATime(t *testing.T) {
	p := newPlan(Bounds{PerHost: 6})
	for i := range 30 {
		p.enter(&Attempt{Host: "h", Inbox: fmt.Sprint(i)}, 0, 0)
	}
	end := func(r Result) {
		a := p.started[0]
		p.started = p.started[1:]
		p.leave(a, r, time.Millisecond)
	}
	for range 7 {
		end(Failed)
	}
	if under := p.hosts["h"].under; under != 1 {
		t.Errorf("%d attempts are under way after seven have failed, want 1", under)
	}
	end(Accepted)
	if under := p.hosts["h"].under; under != 2 {
		t.Errorf("%d attempts are under way after one was accepted, want 2", under)
	}
}
