package simulation

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"hash/fnv"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"fedpost/internal/testkit/faults"
)

// scheduler lets one call to a port go on at a time.
//
// Every goroutine of fedpost runs until it calls a port, and is held there. When all are held
// (synctest.Wait), the scheduler chooses one by the seed, lets its call be made, and waits until
// all are held again. So nothing in a story depends on Go's own scheduler, except the order of
// goroutines that run between two such moments without a call, on which nothing may depend. While
// no call can go on, time passes.
type scheduler struct {
	seed  uint64
	story *story

	mu      sync.Mutex
	arrived []*held // since all were last held
	wake    chan struct{}

	// waiting are calls that wait for something other than time; sleeping only wait for their time,
	// ordered by it.
	waiting  []*held
	sleeping sleepers
	counts   map[string]int // of the calls of an actor, by their names
	over     atomic.Bool
	steps    int
}

// held is a call that the scheduler has not chosen yet.
type held struct {
	faults.Call
	ctx   context.Context
	actor string
	proc  *process
	// when returns the earliest time at which it can go on; zero: not yet. nil: at.
	when func() time.Time
	at   time.Time
	turn chan struct{}
	// name is the same whenever the same scenario runs, and mostly the same when a scenario was
	// shrunk.
	name     string
	priority uint64
	// goroutine is the number of the calling goroutine; 0: not known yet.
	goroutine int
	asked     chan chan int
}

func newScheduler(seed uint64, s *story) *scheduler {
	return &scheduler{seed: seed, story: s, wake: make(chan struct{}, 1), counts: map[string]int{}}
}

// hold waits until a call is chosen.
func (s *scheduler) hold(h *held) {
	h.turn, h.asked = make(chan struct{}), make(chan chan int)
	s.mu.Lock()
	s.arrived = append(s.arrived, h)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	for {
		select {
		case answer := <-h.asked:
			answer <- goroutine()
		case <-h.turn:
			return
		}
	}
}

// number is the number of the calling goroutine. It is found only where calls are equal, because Go
// prints it with a whole stack, which took half of a story's time.
func (h *held) number() int {
	if h.goroutine == 0 {
		answer := make(chan int)
		h.asked <- answer
		h.goroutine = <-answer
	}
	return h.goroutine
}

// goroutine is the number of the current goroutine. Those that one goroutine has started are
// numbered in the order of their start, whichever ran first.
func goroutine() int {
	var b [32]byte
	fields := bytes.Fields(b[:runtime.Stack(b[:], false)]) // goroutine 12 [running]:
	n, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		panic(fmt.Sprintf("read the number of a goroutine from %q: %v", b, err))
	}
	return n
}

// run lets calls go on, and time pass, until a time, or until the story is over.
func (s *scheduler) run(until time.Time, after func()) {
	for !s.over.Load() {
		synctest.Wait()
		s.gather()
		now := time.Now()
		if next := s.choose(now); next != nil {
			s.steps++
			s.waiting = slices.DeleteFunc(s.waiting, func(h *held) bool { return h == next })
			close(next.turn)
			synctest.Wait()
			after()
			continue
		}
		if !now.Before(until) {
			return
		}
		s.sleep(s.next(until).Sub(now))
	}
}

// sleep lets time pass until a call comes.
func (s *scheduler) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.wake:
	}
}

// gather names the calls that have arrived, in an order of their own: on a busy machine Go
// preempts goroutines, and those that make equal calls arrive in any order.
func (s *scheduler) gather() {
	s.mu.Lock()
	fresh := s.arrived
	s.arrived = nil
	select {
	case <-s.wake:
	default:
	}
	s.mu.Unlock()
	slices.SortFunc(fresh, func(a, b *held) int {
		if c := cmp.Or(cmp.Compare(a.actor, b.actor), cmp.Compare(a.Target, b.Target), cmp.Compare(a.Op, b.Op), cmp.Compare(a.About, b.About)); c != 0 {
			return c
		}
		return cmp.Compare(a.number(), b.number())
	})
	for _, h := range fresh {
		what := h.actor + " " + h.Target + "." + h.Op
		s.counts[what]++
		h.name = fmt.Sprintf("%s %d", what, s.counts[what])
		h.priority = s.draw("turn", h.name)
		if h.when == nil && h.ctx == nil && h.proc == nil {
			heap.Push(&s.sleeping, h)
			continue
		}
		s.waiting = append(s.waiting, h)
	}
}

// choose returns the call that goes on now, if any can.
func (s *scheduler) choose(now time.Time) *held {
	for len(s.sleeping) > 0 && !s.sleeping[0].at.After(now) {
		s.waiting = append(s.waiting, heap.Pop(&s.sleeping).(*held))
	}
	var best *held
	for _, h := range s.waiting {
		if !h.ready(now) {
			continue
		}
		if best == nil || h.priority < best.priority || h.priority == best.priority && h.name < best.name {
			best = h
		}
	}
	return best
}

func (h *held) ready(now time.Time) bool {
	if h.proc != nil && h.proc.dead.Load() || h.ctx != nil && h.ctx.Err() != nil {
		return true
	}
	at := h.time()
	return !at.IsZero() && !at.After(now)
}

func (h *held) time() time.Time {
	if h.when == nil {
		return h.at
	}
	return h.when()
}

// next is when the first of the waiting can go on, until at the latest.
func (s *scheduler) next(until time.Time) time.Time {
	if len(s.sleeping) > 0 && s.sleeping[0].at.Before(until) {
		until = s.sleeping[0].at
	}
	for _, h := range s.waiting {
		if at := h.time(); !at.IsZero() && at.Before(until) {
			until = at
		}
		if h.ctx == nil {
			continue
		}
		if end, ok := h.ctx.Deadline(); ok && end.Before(until) {
			until = end
		}
	}
	return until
}

// stop lets all calls go on at once, to fail.
func (s *scheduler) stop() {
	s.over.Store(true)
	for {
		synctest.Wait()
		s.gather()
		s.waiting, s.sleeping = append(s.waiting, s.sleeping...), nil
		if len(s.waiting) == 0 {
			return
		}
		for _, h := range s.waiting {
			close(h.turn)
		}
		s.waiting = nil
	}
}

// draw returns a random number that depends on these words and the seed.
func (s *scheduler) draw(words ...string) uint64 { return draw(s.seed, words...) }

func draw(seed uint64, words ...string) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, seed)
	for _, w := range words {
		h.Write([]byte{0})
		h.Write([]byte(w))
	}
	// FNV's high bits change little with the last letters: mix them.
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// share makes a number in [0, 1) of a draw.
func share(n uint64) float64 { return float64(n>>11) / (1 << 53) }

// sleepers are a heap by time, and by name at one time.
type sleepers []*held

func (s sleepers) Len() int { return len(s) }
func (s sleepers) Less(i, j int) bool {
	return cmp.Or(s[i].at.Compare(s[j].at), cmp.Compare(s[i].name, s[j].name)) < 0
}
func (s sleepers) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s *sleepers) Push(h any)   { *s = append(*s, h.(*held)) }
func (s *sleepers) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}
